"""What a launcher is given: a run with its participants' tasks, and the commands that these run."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from precice_lb.case.sections import VERSION_VARIABLE
from precice_lb.exceptions import StudyError
from precice_lb.plugins import choices

# Tells a recorder how many threads a rank has.
THREADS_VARIABLE = "PRECICE_LB_THREADS"
# Environment variables that belong to a run: the campaign sets them or leaves them out, whatever they were before.
RUN_VARIABLES = (
    "PRECICE_LB_RECORD",
    "PRECICE_LB_DIR",
    "PRECICE_LB_AT_END",
    "PRECICE_LB_METADATA",
    THREADS_VARIABLE,
    VERSION_VARIABLE,
)
#: Placeholders for where in a chain a run is; in a campaign every run is like a first segment.
FIRST_SEGMENT: Mapping[str, object] = {"segment": 1, "start_time": "0"}
# Not the shell's own ${name}.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Task:
    """One participant of a run.

    Attributes
    ----------
    participant : str
        Its name.
    command : tuple of str
        What each of its ranks runs.
    ranks : int
        How many.
    threads : int
        Of each rank, with a core each.
    directory, log : Path
        Where it runs, and where what it prints goes.
    ranks_per_node : int or None
        On each of its nodes; None where it may share nodes with others.
    options : tuple of str
        Of the batch system, for this participant alone.
    variables : mapping of str to str
        Environment variables of this participant alone, on top of the run's.
    segment : mapping of str to object
        Placeholders for where in a chain the run is.
    first_core : int or None
        The first of its cores among those of the run, where some take turns on the same ones; None: behind the task
        before.
    """

    participant: str
    command: tuple[str, ...]
    ranks: int
    directory: Path
    log: Path
    ranks_per_node: int | None = None
    options: tuple[str, ...] = ()
    threads: int = 1
    variables: Mapping[str, str] = field(default_factory=dict)
    segment: Mapping[str, object] = field(default_factory=lambda: FIRST_SEGMENT)
    first_core: int | None = None

    @property
    def values(self) -> dict[str, object]:
        """What commands, templates and variables of the study may have as placeholders."""
        return {
            "cores": self.cores,
            "nodes": self.nodes or 1,
            "participant": self.participant,
            "ranks": self.ranks,
            "ranks_per_node": self.ranks_on_node,
            "threads": self.threads,
            **self.segment,
        }

    @property
    def cores(self) -> int:
        """Cores of all its ranks together."""
        return self.ranks * self.threads

    @property
    def setting(self) -> tuple[str, ...]:
        """The tokens in front of a command that set its variables; none where there are none."""
        return ("env", *(f"{name}={value}" for name, value in self.variables.items())) if self.variables else ()

    @property
    def nodes(self) -> int | None:
        """How many nodes it gets for itself; None where nothing was said of ranks per node."""
        return None if self.ranks_per_node is None else -(-self.ranks // self.ranks_per_node)

    @property
    def ranks_on_node(self) -> int:
        """Ranks on each of its nodes but the last; all of them where nothing was said of ranks per node."""
        return min(self.ranks_per_node or self.ranks, self.ranks)


def cores_of(tasks: Sequence[Task]) -> int:
    """Count the cores that participants take together; those that take turns on the same ones take them once."""
    behind = sum(task.cores for task in tasks if task.first_core is None)
    return max([behind, *(task.first_core + task.cores for task in tasks if task.first_core is not None)])


@dataclass(frozen=True)
class RunPlan:
    """A run to start.

    Attributes
    ----------
    name : str
        Of the run.
    directory : Path
        For the launcher's files.
    tasks : tuple of Task
        One per participant.
    token : str
        Marks everything that belongs to the run, so that it can be found and stopped.
    variables : mapping of str to str
        Environment variables to set.
    time_limit_seconds : float
        How long it may take.
    last_line : str
        What a job's script does when all participants have ended, whether well or not.
    enough : callable
        Asked again and again: says why the run has gone on long enough, and nothing as long as it has not.
    """

    name: str
    directory: Path
    tasks: tuple[Task, ...]
    token: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    time_limit_seconds: float = 3600.0
    last_line: str = ""
    enough: Callable[[], str] = str

    @property
    def ranks(self) -> int:
        """Ranks of all participants together."""
        return sum(task.ranks for task in self.tasks)

    @property
    def cores(self) -> int:
        """Cores of all participants together."""
        return cores_of(self.tasks)

    def environment(self) -> dict[str, str]:
        """Return this process's environment without what belongs to other runs, and with the run's variables."""
        inherited = {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
        return {**inherited, **self.variables}


def file_name(participant: str) -> str:
    """Return what of files' names is one participant's alone: its name, else what can be read of it and a hash.

    It is safe in a shell and as the first word of a path, and leaves room to the 255 bytes of file systems.
    """
    if re.fullmatch(r"(?!-)[A-Za-z0-9_.-]{1,160}", participant):
        return participant
    digest = hashlib.sha256(participant.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_.]', '_', participant)[:160]}~{digest[:16]}"


def command_tokens(
    command: str, directory: Path, case: Path, values: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Split a command as a shell would, fill the placeholders, and put the program it starts in place of its name.

    ``python`` and ``python3`` are the interpreter that runs the campaign; a name with a slash is relative to the
    participant's ``directory`` in the ``case``, of which a run takes a copy; any other name is looked for beside the
    interpreter, then on the path.
    """
    try:
        # Filled once they are apart: whatever a name is made of, it stays in its word.
        name, *others = [fill(token, values or {}) for token in shlex.split(command)] or [""]
    except ValueError as error:
        raise StudyError(f"expected a command, found {command!r}: {error}") from error
    if not name:
        raise StudyError("expected a command, found an empty text")
    if name in {"python", "python3"}:
        return (sys.executable, *others)
    if "/" not in name:
        if (program := which(name)) is None:
            raise StudyError(f"no program {name!r} beside {sys.executable} or on the path")
        return (program, *others)
    path = directory / os.path.expanduser(name)
    if not path.is_file():
        raise StudyError(f"no such program: {path}")
    if not os.access(path, os.X_OK):
        raise StudyError(f"{path} is not executable: chmod +x it, or name its interpreter in the command")
    # What lies in the case is started from the run's copy of it. Links such as a virtual environment's Python go by
    # their own names.
    return (name if _is_copied(name, directory, case) else str(path.parent.resolve() / path.name), *others)


def which(name: str) -> str | None:
    """Return the path of a program: the one beside this Python first."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def _is_copied(name: str, directory: Path, case: Path) -> bool:
    """Whether a name is relative and stays inside the case."""
    path = Path(os.path.normpath(directory / name))
    return not os.path.isabs(os.path.expanduser(name)) and path.is_relative_to(os.path.normpath(case))


def check_command(command: str, directory: Path, case: Path, values: Mapping[str, object] | None = None) -> None:
    """Check that a command's program exists, and the script that it gives to Python or to ``precice-lb run``."""
    program, *words = command_tokens(command, directory, case, values)
    runs = Path(program).name == "precice-lb" and words[:1] == ["run"]
    if program == sys.executable and words[:3] == ["-m", "precice_lb", "run"]:
        runs, words = True, words[2:]
    scripts: list[str] = []
    if runs:
        scripts = words[1:2]
    elif program == sys.executable and {"-m", "-c"}.isdisjoint(words):
        scripts = [*words[:1], *(word for word in words if word.endswith(".py"))]
    script = next((word for word in scripts if not word.startswith("-")), "")
    if not script or (runs and "/" not in script and which(script)):
        return
    if not (directory / script).exists():
        raise StudyError(f"no such script: {directory / script}")
    if not os.path.isabs(script) and not _is_copied(script, directory, case):
        raise StudyError(f"{script} lies outside the case {case}, of which runs take a copy: give its absolute path")


def check_placeholders(text: str, known: Collection[str]) -> None:
    """Refuse placeholders that nothing would be put in for."""
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            hint = choices(name, sorted(known))
            raise StudyError(f"unknown placeholder {{{name}}}{hint}; the shell's own are written ${{{name}}}")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values in place of the placeholders that have one; everything else stays as it is."""
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def split_command(key: str, text: str) -> list[str]:
    """Split a command line of the ``[launcher]`` table as a shell would."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise StudyError(f"launcher.{key}: expected a command line, found {text!r}: {error}") from error
