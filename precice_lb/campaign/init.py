"""A study of what lies in a case's directory: its configuration, what starts its solvers, its runs, and the machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from precice_lb.campaign import read_study
from precice_lb.campaign.launchers.local import available_cores
from precice_lb.campaign.launchers.slurm import allocated_cores
from precice_lb.campaign.starts import Start, find_starts
from precice_lb.case import AcceptedRanks, Configuration, accepted_ranks, read_configuration
from precice_lb.case.sections import RunsSection
from precice_lb.exceptions import DataError, StudyError
from precice_lb.text import plural, visible

_STUDY, _CONFIGURATION = "study.toml", "precice-config.xml"
_MARK = "# please check: "
_SERIAL = f"{_MARK}whether it can run on several ranks: if not, maximum_ranks = 1"
_SINFO = ("sinfo", "--noheader", "--exact", "--format=%P|%D|%X|%Y")
_SINFO_SECONDS = 30.0


def write_study(directory: Path) -> tuple[Path, list[str]]:
    """Write a study of what lies in a directory; return its path, and what is to be checked in it as ``line: text``."""
    path = directory / _STUDY
    if not (directory / _CONFIGURATION).is_file():
        raise DataError(f"{directory}: expected {_CONFIGURATION}, found none; name the directory in which it lies")
    configuration = read_configuration(directory / _CONFIGURATION)
    if path.exists():
        raise DataError(f"{path}: expected no study yet, found one; use it, or move it away to have a new one")
    text = _text(directory.resolve(), configuration)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        try:
            read_study(path)
        except StudyError as error:
            # What is in the way of a command has a mark of its own.
            if "participants[" not in str(error) or _MARK not in text:
                text = f"{_MARK}{visible(str(error).removeprefix(f'{path}: '))}\n{text}"
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: the study cannot be written: {error.strerror}; use a copy of the case") from error
    marks = enumerate((line.partition(_MARK)[2] for line in text.splitlines()), start=1)
    return path, [f"{number}: please check: {mark}" for number, mark in marks if mark]


def _text(case: Path, configuration: Configuration) -> str:
    names, machine = list(configuration.participants), _machine()
    starts, bounds = find_starts(case, names), accepted_ranks(configuration)
    ranks = [starts[name][0].ranks or 0 if starts[name] else 0 for name in names]
    present = sum(ranks) if all(ranks) else 0
    budget = max(present if machine.launcher == "slurm" and present else machine.cores, len(names))
    marks = [machine.mark] if machine.mark else []
    if present > budget:
        marks.append(f"the earlier run had {plural(present, 'rank')}, here are {plural(budget, 'core')}")
    schemes = (
        f"# Coupling: {one.kind} of {visible(', '.join(one.participants))}." for one in configuration.coupling_schemes
    )
    lines = [
        '# Made by precice-lb init. "please check" marks what it could not know; all keys: docs, "Study files".',
        *schemes,
        *_runs(configuration),
        "\n[machine]",
        f"ranks = {budget}  # of all participants together",
        *(f"{_MARK}{visible(mark)}" for mark in marks),
    ]
    if machine.launcher:
        lines.append(f"cores_per_node = {machine.cores_per_node}")
        if any("network" not in socket.attributes for socket in configuration.root.named("m2n:sockets")):
            lines.append(f'\n[case]\nnetwork = "ib0"  {_MARK}the interface between compute nodes')
        lines.append(f'\n[launcher]\nname = "{machine.launcher}"')
        lines += [f'{_MARK}options = ["--partition=…", "--time=…"]'] if machine.launcher == "slurm" else []
        lines.append(f'{_MARK}mpi = "pmi2" (MPICH) or "pmix" (Open MPI) where srun alone starts no MPI')
    for name in names:
        lines += ["", *_participant(name, starts[name], bounds.get(name, AcceptedRanks()), case)]
    return "\n".join([*lines, ""])


def _runs(configuration: Configuration) -> list[str]:
    """Say how long a run is: no longer than the case itself."""
    usual, total = RunsSection(), configuration.windows or 0
    windows = min(usual.windows, total or usual.windows)
    return [
        "\n[runs]",
        f"windows = {windows}  # of each run{f'; the case has {total}' if total else ''}",
        f"warmup_windows = {min(usual.warmup_windows, windows - 1)}  # of these, not counted",
        f"maximum = {usual.maximum}  # runs at most",
    ]


def _participant(name: str, starts: Sequence[Start], accepted: AcceptedRanks, case: Path) -> Iterator[str]:
    start = starts[0] if starts else Start(Path(), f"./{re.sub('[^A-Za-z0-9_]', '-', name)}", "")
    yield f"[[participants]]\nname = {_quoted(name)}"
    if start.directory != Path():
        yield f"directory = {_quoted(str(start.directory))}"
    ran = f"; present: {plural(start.ranks, 'rank')}" if start.ranks else ""
    source = f"# as {visible(start.source)}{ran}" if starts else f"{_MARK}how {visible(name)} starts: nothing here says"
    yield f"command = {_quoted(start.command)}  {source}"
    if others := ", ".join(visible(other.source.removesuffix("/run.sh")) for other in starts[1:]):
        yield f"# Also here: {others}."
    needs = f"run.sh installs {visible(start.requirements)}; python is {sys.executable}" if start.requirements else ""
    if start.problem or needs:
        yield (_MARK if start.problem else "# ") + visible("; ".join(filter(None, [start.problem, needs])))
    if start.environment:
        yield f"environment = {{ {', '.join(f'{key} = {_quoted(text)}' for key, text in start.environment.items())} }}"
    least, most = ((b.ranks, visible(b.why).replace(f"{case}{os.sep}", "")) for b in (accepted.least, accepted.most))
    if least[1]:
        yield "minimum_ranks = {}  # {}".format(*least)
    if start.serial:
        yield f"maximum_ranks = 1  # {start.serial} starts preCICE as rank 0 of 1"
    elif most[1]:
        yield "maximum_ranks = {}  # {}".format(*most)
    elif starts and not start.known:
        yield _SERIAL


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Machine(NamedTuple):
    """What a study says of the machine, and what is to be checked of it."""

    cores: int
    mark: str = ""
    launcher: str = ""
    cores_per_node: int = 0


def _machine() -> _Machine:
    """Find the cores that a run may have: of this job, of a cluster's nodes, or of this machine."""
    here = len(available_cores())
    if "SLURM_JOB_ID" in os.environ:
        nodes = allocated_cores()
        if len(nodes) > 1:
            return _Machine(sum(nodes), "", "srun", min(nodes))
        unsaid = "these are the cores of this node: SLURM_JOB_CPUS_PER_NODE says nothing of the job's"
        return _Machine(here, "" if nodes else unsaid)
    if shutil.which("sinfo") is None:
        return _Machine(here)
    try:
        done = subprocess.run(_SINFO, capture_output=True, text=True, timeout=_SINFO_SECONDS)
        problem = done.stderr.strip() or f"exit code {done.returncode}, {done.stdout!r}"
        answer = "" if done.returncode else done.stdout
    except (OSError, subprocess.SubprocessError) as error:
        answer, problem = "", str(error)
    groups = re.findall(r"^(\S+?)(\*?)\|(\d+)\|(\d+)\|(\d+)$", answer, re.MULTILINE)
    if not groups:
        return _Machine(here, f"these are the cores of this machine, as sinfo failed: {problem.splitlines()[0]}")
    # The default partition first.
    groups.sort(key=lambda group: not group[1])
    sizes = [(f"{name} {count}", int(sockets) * int(cores)) for name, _, count, sockets, cores in groups]
    known = "; ".join(f"{nodes} of {cores} cores" for nodes, cores in sizes)
    cores = sizes[0][1]
    return _Machine(cores, f"how many; nodes of Slurm's partitions: {known}", "slurm", cores)
