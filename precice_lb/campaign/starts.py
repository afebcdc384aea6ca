"""How a participant starts: its last recorded run, or ``<participant>-<solver>/run.sh`` as in preCICE's tutorials."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path

from precice_lb.campaign.plan import check_command
from precice_lb.campaign.prepare import PLACEHOLDERS
from precice_lb.campaign.state import STATE_FILE
from precice_lb.exceptions import PreciceLBError, StudyError
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.store.reader import read_file, stores_below

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
