"""A split of a case: what a study would say of one without, one run of the case itself, and scripts that start it."""

from __future__ import annotations

import math
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from precice_lb.campaign.evidence import cause_of, reasons, without_banner, wrong_size
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.launchers.local import BATCH_PREFIXES, MpiexecLauncher
from precice_lb.campaign.launchers.slurm import (
    UNSET_OPTIONS,
    SlurmLauncher,
    SrunLauncher,
    StepLauncher,
    job_header,
    resource_options,
    total_nodes,
)
from precice_lb.campaign.plan import RUN_VARIABLES, RunPlan, check_command, file_name, fill
from precice_lb.campaign.prepare import tasks_of, tokens_of
from precice_lb.campaign.processes import Outcome, log_tail, signals_interrupt
from precice_lb.campaign.read import study_from
from precice_lb.campaign.schedulers import body, exports, scontrol
from precice_lb.campaign.study import Study
from precice_lb.campaign.time_limit import has_time, production_time_limit, without_time
from precice_lb.case import read_configuration
from precice_lb.case.machine import first_cores
from precice_lb.case.read import overlaid
from precice_lb.case.sections import VERSION_VARIABLE
from precice_lb.exceptions import CalibrationError, DataError, StudyError
from precice_lb.layout import Layout, split_text
from precice_lb.text import checked_list, plural, say, visible, with_versions

_THREADS = "OMP_NUM_THREADS"
# Lets the ranks of an MPI that can do so leave their core while they wait for others.
_YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
# Lines of a script that unset the variables of batch systems, as `MpiexecLauncher.environment` does. POSIX shells
# cannot list variables by the beginning of their names.
_BATCH_VARIABLE = f"^({'|'.join(BATCH_PREFIXES)})[A-Za-z0-9_]*="
_UNSET_BATCH_VARIABLES = f"""\
for name in $(env | grep -aoE '{_BATCH_VARIABLE}'); do
  unset "${{name%=}}"
done
"""
# Lines at the end of a log that are looked at, without those of launchers, and shown.
_READ, _SHOWN = 60, 8


def study_of_case(
    case: Path, configuration: Path, participants: Sequence[dict[str, Any]], cores: int, settings: Mapping[str, Any]
) -> Study:
    """Return the study that says the same: its case is used as it is, and its commands are those that a shell finds.

    ``participants`` are its tables, with the tokens of a command each; ``settings`` are further keys, and its launcher.
    """
    for table in participants:
        name, place, (program, *words) = table["name"], case / table["directory"], table["command"]
        if not place.is_dir():
            raise StudyError(f"{name}: no such directory: {place}")
        # A study looks beside this Python first.
        path = None if "/" in program else shutil.which(program)
        if path is not None and Path(path).parent != Path(sys.executable).parent:
            program = os.path.abspath(path)
        table["command"] = shlex.join([program, *words])
        try:
            # Nothing is copied, so that paths may lead anywhere.
            check_command(table["command"], place, Path("/"))
        except StudyError as error:
            raise StudyError(f"{name}: {error}") from error
    environment = {_THREADS: os.environ.get(_THREADS, "1")}
    tables = {
        "case": {"directory": ".", "configuration": str(configuration), "environment": environment},
        "machine": {"ranks": cores},
        "participants": participants,
    }
    return study_from(overlaid(tables, settings), case / f"{case.name or 'case'}.toml")


def start_split(study: Study, split: Mapping[str, int], directory: Path) -> Outcome:
    """Run the case of a study once, in place, with each participant's log, begun anew, in it; leave nothing running.

    ``directory`` is for the launcher's files. The line that starts each participant is printed.
    """
    launcher = study.launcher.ready(directory)
    plan = _plan(study, split, directory, study.case_directory)
    kept = {name: os.environ[name] for name in RUN_VARIABLES if name in os.environ}
    plan = replace(plan, token=secrets.token_hex(8), variables={**plan.variables, **kept}, time_limit_seconds=math.inf)
    if isinstance(launcher, MpiexecLauncher) and any(task.nodes for task in plan.tasks):
        raise CalibrationError("expected an allocation of Slurm for nodes of their own, found this machine alone")
    launcher.check(plan.tasks)
    if os.environ.get("SLURM_JOB_NUM_NODES", "1") != "1" and (text := _without_network(study)):
        raise StudyError(text)
    for task in launcher.starts(plan):
        task.log.unlink(missing_ok=True)
        say(f"{task.participant}: {shlex.join(task.command)} >{os.path.relpath(task.log)}")
    with signals_interrupt():
        return launcher.run(plan, lambda job: None)


def _plan(study: Study, split: Mapping[str, int], folder: Path, case: Path) -> RunPlan:
    """Return a run of the case itself, with its logs beside it; who takes turns gets the same cores."""
    tasks, variables = tasks_of(study, split, case, case), {_THREADS: "1", **study.case.environment}
    if study.machine.shared:
        firsts, _ = first_cores({task.participant: task.cores for task in tasks}, study.machine.shared)
        tasks = tuple(replace(task, first_core=firsts[task.participant]) for task in tasks)
        variables = _YIELDING | variables
    return RunPlan(study.path.stem, folder, tasks, variables=variables)


def _without_network(study: Study) -> str | None:
    """Say which sockets of the case are on the loopback interface because nobody said otherwise."""
    for element in read_configuration(study.configuration_path).root.named("m2n:sockets"):
        if "network" not in element.attributes:
            return (
                f"{study.case.configuration}, line {element.line}: expected network= with the interface of the nodes, "
                f'such as network="{study.case.network or "ib0"}", found none: on preCICE\'s default lo, ranks of '
                'different nodes never meet; write network="lo" where all ranks fit on one node'
            )
    return None


def last_words(study: Study, participant: str, layout: Layout, since: float) -> list[str]:
    """Return what a participant's log says of its failure, else its end without what the launcher says.

    First of all that it was started by the launcher of another MPI, where its files since a time show that.
    """
    log = study.case_directory / f"{file_name(participant)}.log"
    place = study.case_directory / next(p.directory for p in study.participants if p.name == participant)
    cause = None if cause_of(log, layout.ranks) else wrong_size(place, {participant: layout}, since=since)
    words = reasons(log, layout.ranks) or without_banner(log_tail(log, lines=_READ))[-_SHOWN:]
    return [*filter(None, [cause]), *words]


def on_login_node() -> bool:
    """Whether this machine, outside of any job, belongs to a cluster: its Slurm has a controller, up or down."""
    has_slurm = "SLURM_JOB_ID" not in os.environ and shutil.which("sbatch") is not None
    return has_slurm and "slurmctld" in scontrol("ping").lower()


def write_scripts(
    study: Study,
    split: Mapping[str, int],
    directory: Path,
    *,
    window_seconds: float = math.nan,
    stated_options: Collection[str] = (),
) -> list[Path]:
    """Write ``run.sh`` and, unless participants share cores, ``job.sbatch`` for a split into a directory.

    Both scripts work on the study's case itself, or on the one named as their first argument. They prepare it, start
    all participants with their logs in it, wait, and end with the exit code of the first that failed.

    ``run.sh`` uses the study's launcher if that is ``mpiexec`` or a command template, or if it is ``srun`` and the
    script runs in an allocation. Otherwise it uses ``mpiexec`` if this machine has one. It pins ranks to this machine's
    cores; a split with more ranks is for another machine, whose cores are numbered from 0. Participants that run in
    turns and share cores are pinned to the same ones.

    The time limit of ``job.sbatch`` is computed from the number of time windows of the whole run. A time limit among
    the study's options is for calibration runs and does not count here, unless it is among `stated_options`.

    Parameters
    ----------
    study : Study
        Its case, commands and launcher.
    split : mapping from participant to int
        Number of ranks of each participant; its number of cores where its ranks have several threads.
    directory : Path
        Where the scripts are written; it is made if it is missing.
    window_seconds : float
        Upper bound of the seconds per time window of the split; NaN if it is not known.
    stated_options : collection of str
        Options of ``sbatch`` that the user gave for this job, not for calibration runs.

    Returns
    -------
    list of Path
        The scripts that were written.
    """
    if set(split) != set(study.names):
        raise DataError(f"expected ranks for {', '.join(study.names)}, found them for {', '.join(split) or 'nobody'}")
    checked_list(stated_options, "stated_options", "options", StudyError)
    # Absolute, because the scripts name files of this directory after they have changed into the case.
    folder = directory.expanduser().resolve()
    plan = _plan(study, split, folder, Path())
    contents = {}
    # Slurm gives each step of a job its own cores: participants that share cores can only be started by run.sh.
    if not study.machine.shared:
        contents[folder / "job.sbatch"] = _job(study, plan, window_seconds, stated_options)
    contents |= _shell(study, plan)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in contents.items():
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
    except OSError as error:
        raise DataError(f"{folder}: the launch scripts cannot be written: {error.strerror}") from error
    return [*contents]


def _shell(study: Study, plan: RunPlan) -> dict[Path, str]:
    """Return ``run.sh`` and the files it needs; nothing where this machine has no launcher for it."""
    name = study.launcher.name
    in_allocation = name == "srun" and "SLURM_JOB_ID" in os.environ and not study.machine.shared
    try:
        launcher = (study.launcher if name in {"mpiexec", "template"} or in_allocation else MpiexecLauncher()).ready()
    except CalibrationError:
        return {}
    before = UNSET_OPTIONS if isinstance(launcher, SrunLauncher) else ""
    if isinstance(launcher, MpiexecLauncher):
        if not launcher.oversubscribe:
            launcher.cores = launcher.cores if plan.cores <= len(launcher.cores) else tuple(range(plan.cores))
            # Left to itself, nproc tells the threads that OpenMP may start.
            before = (
                "cores=$(unset OMP_NUM_THREADS OMP_THREAD_LIMIT && nproc)\n"
                f'if [ "$cores" -lt {plan.cores} ]; then\n'
                f'  printf \'%s: expected {plural(plan.cores, "core")}, found %s\\n\' "$0" "$cores" >&2\n'
                "  exit 2\n"
                "fi\n"
            )
        before += _UNSET_BATCH_VARIABLES
    launcher.check(plan.tasks)
    script = f"#!/bin/sh\n{_script(study, plan, launcher, './run.sh', before)}"
    return {plan.directory / "run.sh": script, **launcher.files(plan)}


def _job(study: Study, plan: RunPlan, window_seconds: float, stated_options: Collection[str]) -> str:
    """Return the job script for Slurm."""
    launcher, name = study.launcher, visible(plan.name)
    tasks = [replace(task, options=without_time(task.options, stated_options)) for task in plan.tasks]
    plan = replace(plan, tasks=tuple(tasks))
    # Arguments of another program are none of srun.
    keys = ("arguments", "mpi", "options", "pin", "setup") if isinstance(launcher, StepLauncher) else ("pin",)
    slurm = SlurmLauncher(**{key: getattr(launcher, key) for key in keys if hasattr(launcher, key)})
    components = resource_options(plan.tasks, without_time(slurm.options, stated_options))
    explanation = ""
    if not all(map(has_time, components)):
        limit = production_time_limit(read_configuration(study.configuration_path), window_seconds)
        explanation = f"{visible(limit.comment)}\n"
        if limit.minutes is not None:
            components = [_with_time_limit(component, limit.minutes) for component in components]
    header = job_header(shlex.quote(name), f"{name}-%j.log", components)
    is_wide = study.case.network != "lo" and total_nodes(plan.tasks) != 1
    doubt = f"# {visible(text)}\n" if is_wide and (text := _without_network(study)) else ""
    setup = "".join(f"{line}\n" for line in slurm.setup)
    return header + _script(study, plan, slurm, "sbatch job.sbatch", f"{explanation}{doubt}\n{UNSET_OPTIONS}{setup}")


def _with_time_limit(options: Sequence[str], minutes: int) -> list[str]:
    """Return the options of one component of a job, with a time limit in front unless they state one."""
    if has_time(options):
        return list(options)
    return [f"--time={minutes}", *options]


def _script(study: Study, plan: RunPlan, launcher: Launcher, usage: str, before: str) -> str:
    """Return the lines of a script behind its header: to the case, prepare it for these ranks, start all."""
    split = {task.participant: task.cores for task in plan.tasks}
    versions = {task.participant: task.variables.get(VERSION_VARIABLE, "") for task in plan.tasks}
    text = split_text(with_versions(split, versions), with_versions(study.layouts, versions))
    lines = (
        f"# {text}: {plural(plan.cores, study.unit)}\n# {usage} [CASE]\n{before}"
        f"case={shlex.quote(str(study.case_directory))}\n"
        "CDPATH='' cd -- \"${1:-$case}\" || exit 2\n"
        f'export PATH={shlex.quote(str(Path(sys.executable).parent))}{os.pathsep}"$PATH"\n'
        f"{exports({**plan.variables, **launcher.environment({})})}"
    )
    for participant, task in zip(study.participants, plan.tasks, strict=True):
        place = Path(participant.directory)
        for template in participant.templates:
            text = fill((study.case_directory / place / template).read_text(encoding="utf-8"), task.values)
            target = shlex.quote(str(place / template.removesuffix(".in")))
            lines += f"printf %s {shlex.quote(text)} >{target} || exit\n"
        for command in participant.prepare:
            tokens = shlex.join(tokens_of(study, participant, task, command))
            lines += f"(CDPATH='' cd -- {shlex.quote(str(place))} && {tokens}) || exit\n"
    return f'{lines}\n{body(launcher.starts(plan))}exit "$status"\n'
