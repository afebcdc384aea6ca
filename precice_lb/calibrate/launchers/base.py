"""What a launcher is: it turns a run's participants into command lines, files or a job, and sees it through.

A launcher is registered by name with `launcher`. Whatever it starts, it can tell beforehand as a list of tokens or as a
script's text, so that a test can check the exact command before it is run for real.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from precice_lb.calibrate.processes import Outcome, ProcessSpec, run_processes
from precice_lb.exceptions import CalibrationError

__all__ = [
    "RUN_VARIABLES",
    "Launcher",
    "LauncherOptions",
    "RunPlan",
    "Task",
    "file_name",
    "launcher",
    "launcher_class",
    "launcher_names",
    "make_launcher",
    "nodes_of",
]

# Environment variables that belong to a run: the campaign sets them or leaves them out, whatever they were before.
RUN_VARIABLES = ("PRECICE_LB_RECORD", "PRECICE_LB_DIR", "PRECICE_LB_AT_END", "PRECICE_LB_METADATA")


@dataclass(frozen=True)
class LauncherOptions:
    """The keys of a study's ``[launcher]`` table; each launcher knows some of them (`Launcher.keys`).

    Attributes
    ----------
    program
        Program to use instead of the one the launcher would look for.
    arguments
        Further arguments of that program, before the participant's command.
    oversubscribe
        Let ranks share cores.
    pin
        Bind every rank to a core of its own.
    hostfile
        File with a host and its number of slots per line.
    ranks_per_node
        Ranks on each node; participants then get nodes of their own.
    mpi
        What ``srun --mpi`` gets.
    options
        Options of ``sbatch`` or ``salloc``, one each.
    allocation
        ``"run"``: a job per run; ``"campaign"``: one allocation for all of them.
    setup
        Lines of the job script before the participants.
    participant, script, submit, cancel
        A template's command lines and script file, see `precice_lb.calibrate.launchers.template`.
    submit_retry_seconds
        How long a refused submission is tried again.
    label, directory
        Name of everything the campaign submits, its own among all campaigns; where the campaign lives.
    """

    program: str | None = None
    arguments: tuple[str, ...] = ()
    oversubscribe: bool = False
    pin: bool = True
    hostfile: Path | None = None
    ranks_per_node: int | None = None
    mpi: str | None = None
    options: tuple[str, ...] = ()
    allocation: str = "run"
    setup: tuple[str, ...] = ()
    participant: str | None = None
    script: Path | None = None
    submit: str | None = None
    cancel: str | None = None
    submit_retry_seconds: float = 3600.0
    label: str = "precice-lb"
    directory: Path = Path()


@dataclass(frozen=True)
class Task:
    """One participant of a run: what each of its ``ranks`` runs, where, and what it needs.

    ``ranks_per_node`` and ``options`` (of the batch system) are its own where they differ from the launcher's.
    """

    participant: str
    command: tuple[str, ...]
    ranks: int
    directory: Path
    log: Path
    ranks_per_node: int | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunPlan:
    """A run to start: its tasks, a directory for the launcher's files, variables to set and seconds it may take.

    ``token`` marks everything that belongs to the run, so that it can be found and stopped.
    """

    name: str
    directory: Path
    tasks: tuple[Task, ...]
    token: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    time_limit_seconds: float = 3600.0

    @property
    def ranks(self) -> int:
        """Ranks of all participants together."""
        return sum(task.ranks for task in self.tasks)

    def environment(self) -> dict[str, str]:
        """Return this process's environment without what belongs to other runs, and with the run's variables."""
        inherited = {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
        return {**inherited, **self.variables}


class Launcher:
    """Starts the participants of a run as processes of this machine; subclasses say with which commands.

    Parameters
    ----------
    options
        The study's ``[launcher]`` table.

    Raises
    ------
    CalibrationError
        When something that the launcher needs is missing.
    """

    keys: ClassVar[frozenset[str]] = frozenset()
    """Options that this launcher knows, beside ``name``."""
    many_nodes: ClassVar[bool] = False
    """Whether participants may come to lie on different nodes."""

    def __init__(self, options: LauncherOptions) -> None:
        self.options = options

    def files(self, plan: RunPlan) -> dict[Path, str]:
        """Return the files that `commands` needs, with their text.

        Parameters
        ----------
        plan : RunPlan
            The run.
        """
        return {}

    def commands(self, plan: RunPlan) -> dict[str, list[str]]:
        """Return the command line of each participant.

        Parameters
        ----------
        plan : RunPlan
            The run.
        """
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return variables that the commands need besides the study's."""
        return {}

    def clean(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment of the commands: the given one without what would mislead them.

        Parameters
        ----------
        environment : dict of str to str
            The campaign's own.
        """
        return environment

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse a split that cannot be placed.

        Parameters
        ----------
        tasks : sequence of Task
            One per participant, with its ranks.

        Raises
        ------
        CalibrationError
            Naming what is too small.
        """

    def reserve(self, largest: Sequence[Task], ranks: int) -> None:
        """Get what all runs share.

        Parameters
        ----------
        largest : sequence of Task
            Every participant with its most ranks.
        ranks : int
            The most ranks of all together.
        """

    def run(self, plan: RunPlan, note: Callable[[str], None]) -> Outcome:
        """Run a plan to its end, and leave nothing running.

        Parameters
        ----------
        plan
            The run; `check` has passed.
        note
            Called with the job's number as soon as there is one.

        Returns
        -------
        Outcome
            What the run's processes came to.
        """
        self.write(plan)
        environment = self.clean({**plan.environment(), **self.environment()})
        commands = self.commands(plan)
        specs = [
            ProcessSpec(task.participant, tuple(commands[task.participant]), task.directory, environment, task.log)
            for task in plan.tasks
        ]
        return run_processes(specs, plan.token, plan.time_limit_seconds)

    def write(self, plan: RunPlan) -> None:
        """Write the files that the commands need.

        Parameters
        ----------
        plan : RunPlan
            The run.
        """
        for path, text in self.files(plan).items():
            path.write_text(text, encoding="utf-8")

    @property
    def resumes(self) -> bool:
        """Whether runs go on without this process, so that a campaign started again can wait for them."""
        return False

    def find(self, plan: RunPlan) -> str | None:
        """Return the number of a run's job that waits or runs, by its name; None where there is none.

        Parameters
        ----------
        plan : RunPlan
            The run.
        """
        return None

    def resume(self, plan: RunPlan, job: str) -> Outcome:
        """Wait for a run that was started by a campaign that has ended.

        Parameters
        ----------
        plan : RunPlan
            The run.
        job : str
            Its number in the batch system.

        Returns
        -------
        Outcome
            What the run's processes came to.
        """
        raise NotImplementedError

    def stop(self, token: str, job: str | None) -> None:
        """Stop what an interrupted campaign left running beyond this machine's processes.

        Parameters
        ----------
        token : str
            Marks the run's processes.
        job : str or None
            Its number in a batch system.
        """

    def close(self) -> None:
        """Give back what is held between runs."""


_LauncherType = TypeVar("_LauncherType", bound=type[Launcher])
_REGISTRY: dict[str, type[Launcher]] = {}


def launcher(name: str) -> Callable[[_LauncherType], _LauncherType]:
    """Register the decorated class as a launcher.

    Parameters
    ----------
    name : str
        What a study calls it.

    Returns
    -------
    callable
        Takes a subclass of `Launcher` and gives it back.
    """

    def register(cls: _LauncherType) -> _LauncherType:
        if name in _REGISTRY:
            raise ValueError(f"launcher {name!r} is registered already, by {_REGISTRY[name].__qualname__}")
        _REGISTRY[name] = cls
        return cls

    return register


def launcher_names() -> tuple[str, ...]:
    """Return the names that ``launcher.name`` of a study may have."""
    return tuple(sorted(_REGISTRY))


def launcher_class(name: str) -> type[Launcher]:
    """Return the class registered as ``name``.

    Raises
    ------
    CalibrationError
        When the name is unknown.
    """
    if name not in _REGISTRY:
        raise CalibrationError(f"unknown launcher {name!r}: expected one of {', '.join(launcher_names())}")
    return _REGISTRY[name]


def make_launcher(name: str, options: LauncherOptions | None = None) -> Launcher:
    """Make a registered launcher.

    Parameters
    ----------
    name : str
        One of `launcher_names`.
    options : LauncherOptions, optional
        What the study says.

    Returns
    -------
    Launcher

    Raises
    ------
    CalibrationError
        When the name is unknown or what the launcher needs is missing.
    """
    return launcher_class(name)(options or LauncherOptions())


def file_name(participant: str) -> str:
    """Return a participant's name as part of a file's name, which file systems limit to 255 bytes."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", participant)
    return name if len(name) <= 160 else f"{name[:160]}_{hashlib.sha256(participant.encode()).hexdigest()[:16]}"


def nodes_of(task: Task, options: LauncherOptions) -> int | None:
    """Return how many nodes a participant gets for itself, None where nothing was said of ranks per node."""
    per_node = task.ranks_per_node or options.ranks_per_node
    return None if per_node is None else -(-task.ranks // per_node)
