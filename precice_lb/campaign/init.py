"""A study of what lies in a case's directory: its configuration, how solvers start, their last run, and the machine."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from itertools import dropwhile
from pathlib import Path

from precice_lb.campaign import read_study
from precice_lb.campaign.launchers.local import available_cores
from precice_lb.campaign.plan import check_command
from precice_lb.campaign.prepare import PLACEHOLDERS
from precice_lb.case import AcceptedRanks, Configuration, accepted_ranks, read_configuration
from precice_lb.case.machine import MachineSection
from precice_lb.case.sections import RunsSection
from precice_lb.exceptions import DataError, PreciceLBError, StudyError
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.text import plural, visible

_STUDY, _CONFIGURATION = "study.toml", "precice-config.xml"
_MARK = "# please check: "
_RECORDED = "python -m precice_lb run "
# In a run.sh: what prepares, logs, branches or tidies up.
_SETUP = re.compile(
    r"set|source|\.|export|unset|exec|trap|exit|echo|printf|cd|mkdir|rm|cp|mv|ln|touch|chmod|pip3?|cmake|w?make|usage"
    r"|close_log|use_python|sed|tar|gmsh|topoSet|module|blockMesh|decomposePar|curl|sleep|wait|\[\[?|test|shift|true"
    r"|local|if|elif|fi|for|while|until|done|case|esac|[{}]|\S*\)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_FUNCTION = re.compile(r"^[\w-]+\s*\(\)\s*\{\n.*?^\}", re.MULTILINE | re.DOTALL)
# With options, of which those of numbers have them as the next word.
_LAUNCH = re.compile(r"^(?:\S*/)?(?:mpirun|mpiexec|srun)(?: -\S+(?: \d+(?!\S))?)* ")
# Of a script, not of a module; and console scripts of Python, which are recorded as well.
_PYTHON = re.compile(
    r"^(?:(?:\S*/)?python[0-9.]*(?: -u)?(?: -m precice_lb run)? (?!-)|(?=micro-manager-precice|fmiprecice))"
)
_SINFO = ("sinfo", "--noheader", "--exact", "--format=%P|%D|%X|%Y")
_SINFO_SECONDS = 30.0


@dataclass
class Start:
    """One way in which a participant may be started, and what is known of it."""

    #: Relative to the case.
    directory: Path
    command: str
    environment: dict[str, str] = field(default_factory=dict)
    #: Of the run whose profiling files lie there.
    ranks: int | None = None
    #: Whether the script says with how many ranks preCICE starts, and where it says 1.
    known: bool = False
    serial: str = ""
    #: What is in the way here.
    problem: str = ""


def find_starts(case: Path, names: Sequence[str]) -> dict[str, list[Start]]:
    """Find the ways to start each participant, best first: where it ran, what can start here, what says its ranks."""
    starts: dict[str, list[Start]] = {name: [] for name in names}
    ran: dict[tuple[str, Path], int] = {}
    with contextlib.suppress(PreciceLBError):
        ran = {(header.participant, header.path.parent.parent): header.size for header in find_profiles([case])[0]}
    for script in sorted(case.glob("*/run.sh")):
        # Folders are called participant-solver, or as the first word of both.
        folder = script.parent.name.lower()
        whole = [name for name in names if f"{folder}-".startswith(f"{name.lower()}-")]
        first = [name for name in names if re.split("[-_]", name.lower())[0] == folder.partition("-")[0]]
        owners = [max(whole, key=len)] if whole else first
        if len(owners) == 1 and (start := _from_run_script(script, case)) is not None:
            start.ranks = ran.get((owners[0], script.parent))
            starts[owners[0]].append(start)
    for ways in starts.values():
        ways.sort(key=lambda start: (start.ranks is None, bool(start.problem), not start.known))
    return starts


def _from_run_script(script: Path, case: Path) -> Start | None:
    words, environment = first_command(script.read_text(encoding="utf-8", errors="replace")), {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        key, _, environment[key] = words.pop(0).partition("=")
    if any("$" in word for word in words):
        # A function of the shell starts the script.
        words = ["python", *dropwhile(lambda word: not word.endswith(".py"), words)]
    if words in ([], ["python"]) or any("$" in word or "`" in word for word in words):
        return None
    command, is_python = _PYTHON.subn(_RECORDED, _LAUNCH.sub("", shlex.join(words)))
    start = Start(script.parent.relative_to(case), command, environment)
    try:
        check_command(command, script.parent, case, dict.fromkeys(PLACEHOLDERS, 1))
    except StudyError as error:
        start.problem = str(error).replace(f"{case}{os.sep}", "")
    solver = script.parent / shlex.split(command.removeprefix(_RECORDED))[0]
    if is_python and solver.is_file():
        start.known, line, missing = read_script(solver)
        start.serial = f"{solver.name}:{line}" if line else ""
        if missing and not start.problem:
            start.problem = f"{solver.name} imports {', '.join(missing)}, not found here"
    return start


def read_script(script: Path) -> tuple[bool, int | None, list[str]]:
    """Read a solver: whether it says preCICE's ranks, the line that says rank 0 of 1, and modules that are not here."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False, None, []
    known, serial = False, None
    constants: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            # One that is set twice is no constant.
            constants[target.id] = getattr(node.value, "value", None) if target.id not in constants else None
        if isinstance(node, ast.Call) and "Participant" in {getattr(node.func, key, "") for key in ("attr", "id")}:
            arguments: dict[object, ast.expr] = {keyword.arg: keyword.value for keyword in node.keywords}
            arguments |= dict(zip(("solver_process_index", "solver_process_size"), node.args[2:4], strict=False))
            ends = [arguments.get("solver_process_index"), arguments.get("solver_process_size")]
            known = known or None not in ends
            values = [constants.get(getattr(end, "id", ""), getattr(end, "value", None)) for end in ends]
            serial = node.lineno if values == [0, 1] else serial
    modules = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level]
    # Without pyprecice there is the embedded backend.
    here, path = {"precice", *sys.stdlib_module_names}, [str(script.parent), *sys.path]
    names = dict.fromkeys(module.partition(".")[0] for module in modules)
    return known, serial, [name for name in names if name not in here and not PathFinder.find_spec(name, path)]


def first_command(text: str) -> list[str]:
    """Return the first command of a shell script that is no preparation, without what its output goes to."""
    for part in re.split(r"&&|\|\||;+|\n", _FUNCTION.sub("", text.replace("\\\n", " "))):
        # Nothing where quotes stay open.
        with contextlib.suppress(ValueError):
            words = shlex.split(re.split(r"\b[12]?[<>|&]|[<>|&]", part)[0], comments=True)
            words = [word for word in words if not word.startswith(("$@", "${@"))]
            words = words[1:] if words[:1] in (["then"], ["else"], ["do"]) else words
            program = next((word for word in words if not _ASSIGNMENT.fullmatch(word)), "set")
            if not _SETUP.fullmatch(program) and words[1:3] != ["-m", "venv"]:
                return words
    return []


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
    except OSError as error:
        raise DataError(f"{path}: the study cannot be written: {error.strerror}; use a copy of the case") from error
    lines = enumerate(text.splitlines(), start=1)
    marks = [f"{number}: please check: {mark}" for number, line in lines if (mark := line.partition(_MARK)[2])]
    try:
        read_study(path)
    except StudyError as error:
        # What is in the way of a command has a mark of its own.
        if "participants[" not in str(error) or not marks:
            marks.insert(0, f"1: please check: {visible(str(error).removeprefix(f'{path}: '))}")
    return path, marks


def _text(case: Path, configuration: Configuration) -> str:
    names, (cores, marks, is_slurm) = list(configuration.participants), _machine()
    starts, bounds = find_starts(case, names), accepted_ranks(configuration)
    ranks = [starts[name][0].ranks or 0 if starts[name] else 0 for name in names]
    present = sum(ranks) if all(ranks) else 0
    budget = max(present if is_slurm and present else cores, len(names))
    if present > budget:
        marks.append(f"the earlier run had {plural(present, 'rank')}, here are {plural(budget, 'core')}")
    usual = RunsSection()
    windows = min(usual.windows, configuration.windows or usual.windows)
    sockets = configuration.root.named("m2n:sockets")
    lines = [
        '# Made by precice-lb init. "please check" marks what it could not know; all keys: docs, "Study files".',
        "\n[runs]",
        _key(RunsSection, "windows", windows),
        _key(RunsSection, "warmup_windows", min(usual.warmup_windows, windows - 1)),
        _key(RunsSection, "maximum", usual.maximum),
        "\n[machine]",
        _key(MachineSection, "ranks", budget),
        *(f"{_MARK}{visible(mark)}" for mark in marks),
    ]
    if is_slurm:
        lines.append(_key(MachineSection, "cores_per_node", cores))
        if any("network" not in socket.attributes for socket in sockets):
            lines.append(f'\n[case]\nnetwork = "ib0"  {_MARK}the interface between compute nodes')
        lines.append(f'\n[launcher]\nname = "slurm"\n{_MARK}options = ["--partition=…"]')
        lines.append(f'{_MARK}mpi = "pmi2" (MPICH) or "pmix" (Open MPI) where srun alone starts no MPI')
    for name in names:
        lines += ["", *_participant(name, starts[name], bounds.get(name, AcceptedRanks()), case)]
    return "\n".join([*lines, ""])


def _key(section: type, key: str, value: int) -> str:
    """Write a key with the first sentence of what its table says of it."""
    text = re.search(rf"^{key}(?:, \w+)*\n((?:    .*\n?)+)", inspect.getdoc(section) or "", re.MULTILINE)
    meaning = " ".join(text[1].split()).partition(". ")[0].removesuffix(".") if text else ""
    return f"{key} = {value}  # {meaning}"


def _participant(name: str, starts: Sequence[Start], accepted: AcceptedRanks, case: Path) -> Iterator[str]:
    start = starts[0] if starts else Start(Path(), f"./{re.sub('[^A-Za-z0-9_]', '-', name)}")
    yield f"[[participants]]\nname = {_quoted(name)}"
    if start.directory != Path():
        yield f"directory = {_quoted(str(start.directory))}"
    ran = f"; present: {plural(start.ranks, 'rank')}" if start.ranks else ""
    source = f"# as its run.sh{ran}" if starts else f"{_MARK}how {visible(name)} starts: nothing here says"
    yield f"command = {_quoted(start.command)}  {source}"
    if others := ", ".join(visible(str(other.directory)) for other in starts[1:]):
        yield f"# Also here: {others}."
    if start.problem:
        yield f"{_MARK}{visible(start.problem)}"
    if start.environment:
        yield f"environment = {{ {', '.join(f'{key} = {_quoted(text)}' for key, text in start.environment.items())} }}"
    bounds = {"minimum": accepted.least, "maximum": accepted.most}
    lines = {
        key: f"{key}_ranks = {bound.ranks}  # {visible(bound.why).replace(f'{case}{os.sep}', '')}"
        for key, bound in bounds.items()
        if bound.why
    }
    if start.serial:
        lines["maximum"] = f"maximum_ranks = 1  # {start.serial} starts preCICE as rank 0 of 1"
    yield from lines.values()
    if starts and not start.known and "maximum" not in lines:
        yield f"{_MARK}whether it can run on several ranks: if not, maximum_ranks = 1"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _machine() -> tuple[int, list[str], bool]:
    """Find the cores of a node of Slurm's default partition, else of this machine; what to check of that; if Slurm."""
    here = len(available_cores())
    if shutil.which("sinfo") is None:
        return here, [], False
    try:
        done = subprocess.run(_SINFO, capture_output=True, text=True, timeout=_SINFO_SECONDS, check=True)
        problem, groups = done.stdout, re.findall(r"^(\S+?)(\*?)\|(\d+)\|(\d+)\|(\d+)$", done.stdout, re.MULTILINE)
    except (OSError, subprocess.SubprocessError) as error:
        problem, groups = getattr(error, "stderr", None) or str(error), []
    if not groups:
        return here, [f"the cores are this machine's, as sinfo failed: {problem.partition(os.linesep)[0]}"], False
    # The default partition first.
    groups.sort(key=lambda group: not group[1])
    sizes = [int(sockets) * int(cores) for *_, sockets, cores in groups]
    known = (f"{name} {count} of {size} cores" for (name, _, count, *_), size in zip(groups, sizes, strict=True))
    return sizes[0], [f"how many; nodes of Slurm's partitions: {'; '.join(known)}"], True
