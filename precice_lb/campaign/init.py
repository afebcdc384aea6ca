"""A study of what lies in a case's directory: its configuration, how solvers start, its runs, and the machine."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from precice_lb.campaign import read_study
from precice_lb.campaign.launchers.local import available_cores
from precice_lb.campaign.launchers.slurm import allocated_cores
from precice_lb.campaign.plan import check_command
from precice_lb.campaign.prepare import PLACEHOLDERS
from precice_lb.campaign.state import STATE_FILE
from precice_lb.case import AcceptedRanks, Configuration, accepted_ranks, read_configuration
from precice_lb.case.sections import RunsSection
from precice_lb.exceptions import DataError, PreciceLBError, StudyError
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.store.reader import read_file, stores_below
from precice_lb.text import plural, visible

_RUN = "its last recorded run"
_RECORDED = "python -m precice_lb run "
# In a run.sh: what prepares, logs or tidies up.
_SETUP = re.compile(
    r"set|source|\.|export|unset|exec|trap|exit|echo|printf|cd|mkdir|rm|cp|mv|ln|touch|chmod|pip3?|cmake|w?make|usage"
    r"|close_log|module|blockMesh|decomposePar|curl|sleep|wait|\[\[?|test|shift|true|local|then|do"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_FUNCTION = re.compile(r"[\w-]+\s*\(\)")
# With options, of which those of numbers have them as the next word.
_LAUNCH = re.compile(r"(?:\S*/)?(?:mpirun|mpiexec|srun)(?: -\S+(?: \d+(?!\S))?)* ")
_RANKS = re.compile(r" (?:--?np?|--ntasks)[ =](\d+) ")
# Console scripts of Python, which are recorded as well.
_PYTHON_PROGRAMS = frozenset({"micro-manager-precice", "fmiprecice"})


@dataclass
class Start:
    """One way in which a participant may be started, and what is known of it."""

    #: Relative to the case.
    directory: Path
    command: str
    #: What says so.
    source: str
    environment: dict[str, str] = field(default_factory=dict)
    #: Of the latest run, where there was one.
    ranks: int | None = None
    #: The file that ``run.sh`` installs.
    requirements: str = ""
    #: Whether the script says with how many ranks preCICE starts, and where it says 1.
    known: bool = False
    serial: str = ""
    #: What is in the way here.
    problem: str = ""


def find_starts(case: Path, names: Sequence[str]) -> dict[str, list[Start]]:
    """Find the ways to start each participant, best first: as recorded, where it ran, what can start here, Python."""
    paths = [path for path in stores_below(case) if "-0-" in path.name and not _is_campaigns(path)]
    paths.sort(key=lambda path: -path.stat().st_mtime)
    starts = {name: _recorded(case, name, paths) for name in names}
    ran: dict[tuple[str, Path], int] = {}
    with contextlib.suppress(PreciceLBError):
        headers = [header for header in find_profiles([case])[0] if not _is_campaigns(header.path)]
        ran = {(header.participant, header.path.parent.parent): header.size for header in headers}
    for script in sorted(case.glob("*/run.sh")):
        name, start = _owner(script.parent.name, names), _from_run_script(script, case)
        if name is not None and start is not None:
            start.ranks = ran.get((name, script.parent), start.ranks)
            starts[name].append(start)
    for ways in starts.values():
        for start in ways:
            _examine(start, case)
        ways.sort(key=lambda start: _doubts(start, case))
    return starts


def _owner(folder: str, names: Sequence[str]) -> str | None:
    """Return whose folder it is: participant-solver, or the first word of both."""
    folder = folder.lower()
    whole = [name for name in names if f"{folder}-".startswith(f"{name.lower()}-")]
    first = [name for name in names if re.split("[-_]", name.lower())[0] == folder.partition("-")[0]]
    return max(whole, key=len) if whole else first[0] if len(first) == 1 else None


def _is_campaigns(place: Path) -> bool:
    return any((parent / STATE_FILE).exists() for parent in place.parents)


def _recorded(case: Path, name: str, paths: Sequence[Path]) -> list[Start]:
    """Return how the first of recorded runs of a participant was started, below the case."""
    for path in paths:
        with contextlib.suppress(PreciceLBError, OSError, ValueError):
            metadata = read_file(path)[0].metadata
            place, words = Path(metadata.get("working_directory", os.sep)), shlex.split(metadata.get("command", "-c"))
            is_script = bool(words) and words[0] not in ("-c", "-m", "")
            if metadata["participant"] == name and place.is_relative_to(case) and is_script:
                return [Start(place.relative_to(case), _RECORDED + shlex.join(words), _RUN, ranks=metadata["size"])]
    return []


def _from_run_script(script: Path, case: Path) -> Start | None:
    text = script.read_text(encoding="utf-8", errors="replace")
    words, environment = last_command(text), {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        key, _, environment[key] = words.pop(0).partition("=")
    launch = _LAUNCH.match(" ".join(words))
    words = words[len(launch[0].split()) if launch else 0 :]
    count = _RANKS.search(launch[0]) if launch else None
    if any("$" in word for word in words):
        # A function of the shell starts the script.
        words = ["python", *dropwhile(lambda word: not word.endswith(".py"), words)]
    if len(words) < 1 + (words[:1] == ["python"]) or any("$" in word or "`" in word for word in words):
        return None
    installed = re.search(r"^\s*pip3? install -r (\S+)", text, re.MULTILINE)
    start = Start(script.parent.relative_to(case), shlex.join(words), str(script.relative_to(case)), environment)
    start.ranks, start.requirements = int(count[1]) if count else None, installed[1] if installed else ""
    if re.fullmatch(r"python[0-9.]*", Path(words[0]).name) and words[1:2] != ["-c"]:
        words = words[4:] if words[1:4] == ["-m", "precice_lb", "run"] else words[2 if words[1:2] == ["-u"] else 1 :]
        start.command = _RECORDED + shlex.join(words)
    elif words[0] in _PYTHON_PROGRAMS:
        start.command = _RECORDED + start.command
    elif "openfoam" in words[0].lower():
        start.command, start.problem = "pimpleFoam", "its application and decomposition, see docs/learn/openfoam.md"
    return start


def _examine(start: Start, case: Path) -> None:
    """Find out what is in the way of a start, and with how many ranks it starts preCICE."""
    place = case / start.directory
    try:
        check_command(start.command, place, case, dict.fromkeys(PLACEHOLDERS, 1))
    except StudyError as error:
        start.problem = start.problem or str(error).replace(f"{case}{os.sep}", "")
    script = place / shlex.split(start.command.removeprefix(_RECORDED))[0]
    if start.command.startswith(_RECORDED) and script.is_file():
        start.known, line, missing = read_script(script)
        start.serial = f"{script.name}:{line}" if line else ""
        if missing and not start.problem:
            start.problem = f"{script.name} imports {', '.join(missing)}, not found here"


def _doubts(start: Start, case: Path) -> tuple[bool, ...]:
    """Say what speaks against a start: no run of it, what is in the way, no solver, or one of another language."""
    python = bool(list((case / start.directory).glob("*.py")))
    return start.source != _RUN, start.ranks is None, bool(start.problem), not start.known, not python


def read_script(script: Path) -> tuple[bool, int | None, list[str]]:
    """Read a solver: whether it says preCICE's ranks, the line that says rank 0 of 1, and modules that are not here."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False, None, []
    nodes = list(ast.walk(tree))
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    constants = {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and stored.count(target.id) == 1
    }
    known, serial = False, None
    for node in nodes:
        if isinstance(node, ast.Call) and "Participant" in {getattr(node.func, key, "") for key in ("attr", "id")}:
            arguments: dict[object, ast.expr] = {keyword.arg: keyword.value for keyword in node.keywords}
            arguments |= dict(zip(("solver_process_index", "solver_process_size"), node.args[2:4], strict=False))
            ends = [arguments.get("solver_process_index"), arguments.get("solver_process_size")]
            known = known or None not in ends
            values = [
                constants.get(end.id) if isinstance(end, ast.Name) else getattr(end, "value", None) for end in ends
            ]
            serial = node.lineno if values == [0, 1] else serial
    # Of modules, those that it imports first of all and that neither lie beside it nor in this Python. Without
    # pyprecice there is the embedded backend.
    modules = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    modules += [
        node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    missing = [
        name
        for name in dict.fromkeys(module.partition(".")[0] for module in modules)
        if name not in ("precice", *sys.modules)
        and not any((script.parent / beside).exists() for beside in (name, f"{name}.py"))
        and importlib.util.find_spec(name) is None
    ]
    return known, serial, missing


def last_command(text: str) -> list[str]:
    """Return the last command of a shell script that is no preparation: outside of branches, else in a first branch."""
    plain: list[str] = []
    branch: list[str] = []
    # Of each open block, whether what is in it counts.
    blocks: list[bool] = []
    for line in text.replace("\\\n", " ").splitlines():
        commands = _simple_commands(line)
        # Opened and closed in one line.
        if len(commands) > 1 and commands[-1][0] in ("fi", "done", "esac", "}"):
            continue
        for words in commands:
            first = words[0]
            if first in ("if", "for", "while", "until", "case") or _FUNCTION.match(line.strip()):
                blocks.append(first == "if")
            elif first in ("else", "elif") and blocks:
                blocks[-1] = False
            elif first in ("fi", "done", "esac", "}") and blocks:
                blocks.pop()
            elif all(blocks):
                words = words[1:] if first == "then" else words
                program = next((word for word in words if not _ASSIGNMENT.fullmatch(word)), "set")
                if not _SETUP.fullmatch(program) and words[1:3] != ["-m", "venv"]:
                    plain, branch = (plain, words) if blocks else (words, branch)
    return plain or branch


def _simple_commands(line: str) -> list[list[str]]:
    """Split a line at ``&&``, ``||`` and ``;``, without what its output goes to; nothing where quotes stay open."""
    commands = []
    for part in re.split(r"&&|\|\||;+", line):
        with contextlib.suppress(ValueError):
            commands.append(shlex.split(re.split(r"\b[12]?[<>|&]|[<>|&]", part)[0], comments=True))
    return [[word for word in words if not word.startswith(("$@", "${@"))] for words in commands if words]


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
