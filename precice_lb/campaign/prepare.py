"""What runs of a case are made of: copies of its files, what each participant starts there, and what it needs first."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from precice_lb.campaign.launchers.slurm import GPU_OPTIONS
from precice_lb.campaign.plan import FIRST_SEGMENT, THREADS_VARIABLE, RunPlan, Task, command_tokens, file_name, fill
from precice_lb.campaign.processes import log_tail, run_processes
from precice_lb.campaign.state import STATE_FILE
from precice_lb.campaign.study import Study
from precice_lb.case.sections import ParticipantSection
from precice_lb.exceptions import CalibrationError
from precice_lb.layout import Layout

# Left behind: what runs write and would only mislead or slow down the next one.
LEFT_OUT = (
    "__pycache__",
    "*.pyc",
    ".git",
    ".venv",
    ".*_cache",
    "precice-run",
    "precice-profiling",
    "precice-exports",
    "precice-lb-store",
    "precice-*-iterations.log",
    "precice-*-convergence.log",
    "precice-*-watchpoint-*.log",
)
_BLOCK = 1 << 20
# Of a tree that is copied: its path there, itself, and whether its copy is a link to it.
Entry = tuple[Path, os.DirEntry[str], bool]
# Launchers that know options of Slurm.
_SLURM = ("slurm", "srun")


def copy_tree(source: Path, target: Path, entries: Iterable[Entry]) -> None:
    """Copy `entries_of` a tree over another one.

    A symbolic link that points outside of the tree keeps pointing there; one that points inside points into the copy.
    """
    _make(target, source.stat())
    for inside, entry, linked in entries:
        new = target / inside
        if entry.is_dir(follow_symlinks=False) and not linked:
            _make(new, entry.stat())
            continue
        if new.is_dir() and not new.is_symlink():
            shutil.rmtree(new)
        new.unlink(missing_ok=True)
        if entry.is_symlink():
            end = os.readlink(entry)
            from_here = Path(os.path.normpath(Path(entry.path).parent / end))
            # A relative link that leads out of the tree leads to the same place from its copy.
            new.symlink_to(end if os.path.isabs(end) or from_here.is_relative_to(source) else from_here)
        elif linked:
            new.symlink_to(entry.path)
        else:
            shutil.copy2(entry.path, new)


def _make(place: Path, like: os.stat_result) -> None:
    """Make a directory; a case may be read-only, but its copy is worked in."""
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(stat.S_IMODE(like.st_mode) | stat.S_IRWXU)


def entries_of(
    source: Path,
    *,
    link: Sequence[str] = (),
    without: Path | None = None,
    left_out: Sequence[str] = (),
    only: Set[Path] | None = None,
) -> Iterator[Entry]:
    """Walk what is copied of a tree, directories before what they hold, with links where ``link`` says so.

    Neither the directory ``without`` nor that of another campaign is, nor names like those ``left_out``; with ``only``
    these paths, and what is below them, and nothing else.
    """
    above = set() if only is None else {parent for path in only for parent in path.parents}
    waiting = [Path()]
    while waiting:
        relative = waiting.pop()
        for entry in sorted(os.scandir(source / relative), key=lambda entry: entry.name):
            inside, path = relative / entry.name, Path(entry.path)
            wanted = only is None or inside in above or not only.isdisjoint((inside, *inside.parents))
            if not wanted or any(fnmatch.fnmatch(entry.name, pattern) for pattern in left_out):
                continue
            if without is not None and (path.resolve() == without or (path / STATE_FILE).exists()):
                continue
            linked = any(fnmatch.fnmatch(str(inside), pattern) for pattern in link)
            yield inside, entry, linked
            if entry.is_dir(follow_symlinks=False) and not linked:
                waiting.append(inside)


def copied_files(study: Study, directory: Path, *left_out: str) -> dict[str, os.DirEntry[str]]:
    """Find the files that a run of the campaign in ``directory`` gets a copy of, by where they lie in it."""
    files = {}
    for source in filter(None, (study.case_directory, study.restart_path)):
        unwanted = (*LEFT_OUT, *left_out)
        for inside, entry, linked in entries_of(source, link=study.case.link, without=directory, left_out=unwanted):
            if entry.is_file(follow_symlinks=False) and not linked:
                files[os.fsencode(inside).decode("utf-8", "backslashreplace")] = entry
    return files


def case_files(study: Study, directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that runs get a copy of.

    Left out are logs, which say what others did here, and what the study's identity has: it and the configuration.
    """
    digests = {}
    for name, entry in copied_files(study, directory, "*.log").items():
        if Path(entry.path) not in (study.path, study.configuration_path):
            digest = hashlib.sha256()
            with open(entry.path, "rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
            digests[name] = digest.hexdigest()
    return digests


PLACEHOLDERS = frozenset(Task("any", (), 1, Path(), Path()).values)
"""What may stand in a participant's command, its prepare and collect commands, templates and environment."""


def tokens_of(study: Study, participant: ParticipantSection, task: Task, command: str | None = None) -> tuple[str, ...]:
    """Return a command of a participant, by default the one that each rank of its task runs, as tokens."""
    text = participant.command_at(task.ranks) if command is None else command
    return command_tokens(text, study.case_directory / participant.directory, study.case_directory, task.values)


def task_of(
    study: Study, participant: ParticipantSection, cores: int, segment: Mapping[str, object] = FIRST_SEGMENT
) -> Task:
    """Return what a participant takes with a number of cores (ranks by default), without where and what they run."""
    layout, kind, gpus = study.layout(participant.name, cores), study.kind_of(participant), participant.gpus_per_rank
    options = (kind.options if kind else ()) + participant.options
    if gpus and study.launcher.name in _SLURM and not any(option.startswith(GPU_OPTIONS) for option in options):
        options += (f"--gpus-per-task={gpus}",)
    per_node = participant.ranks_per_node
    if kind is None:
        per_node = per_node or getattr(study.launcher, "ranks_per_node", None)
    else:
        # As many as fit, where no fewer are asked for.
        fit = min(kind.cores_per_node // layout.threads, kind.gpus_per_node // gpus if gpus else kind.cores_per_node)
        per_node = max(min(fit, per_node or fit), 1)
    where = Path()
    task = Task(participant.name, (), layout.ranks, where, where, per_node, options, layout.threads, segment=segment)
    variables = {}
    if participant.name in study.layouts:
        variables = dict.fromkeys(("OMP_NUM_THREADS", THREADS_VARIABLE), str(task.threads))
        # The ranks have their cores from the launcher; bound threads of OpenMP would meet those of others on one core.
        if "OMP_PROC_BIND" not in os.environ.keys() | study.case.environment.keys():
            variables["OMP_PROC_BIND"] = "false"
    variables |= {name: fill(text, task.values) for name, text in participant.environment.items()}
    return replace(task, variables=variables)


def tasks_of(
    study: Study, split: Mapping[str, int], case: Path, logs: Path, segment: Mapping[str, object] = FIRST_SEGMENT
) -> tuple[Task, ...]:
    """Return the tasks of a run in a copy of the case."""
    return tuple(
        replace(
            task := task_of(study, participant, split[participant.name], segment),
            command=tokens_of(study, participant, task),
            directory=case / participant.directory,
            log=logs / f"{file_name(participant.name)}.log",
        )
        for participant in study.participants
    )


def prepare_in(study: Study, participant: ParticipantSection, plan: RunPlan, task: Task) -> None:
    """Fill a participant's templates and run its prepare commands where its task is, in a copy of the case."""
    for template in participant.templates:
        text = (task.directory / template).read_text(encoding="utf-8")
        target = task.directory / template.removesuffix(".in")
        target.unlink(missing_ok=True)
        target.write_text(fill(text, task.values), encoding="utf-8")
    what = f"prepare for {Layout(task.ranks, task.threads).words}"
    for command in participant.prepare:
        run_in(study, participant, plan, task, command, what)


def run_in(study: Study, participant: ParticipantSection, plan: RunPlan, task: Task, command: str, what: str) -> None:
    """Run one command of a participant where its task is; ``what`` it does begins the message where it fails."""
    task = replace(task, command=tokens_of(study, participant, task, command))
    outcome = run_processes([task], plan.environment(), plan.token, plan.time_limit_seconds)
    if outcome.error is not None:
        tail = " | ".join(log_tail(task.log, lines=4)) or "it said nothing"
        raise CalibrationError(f"{what}, {shlex.join(task.command)}: {outcome.error}: {tail}")
