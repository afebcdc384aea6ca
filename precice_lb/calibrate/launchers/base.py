"""What a launcher is: it turns a run's participants into command lines, files or a job, and sees it through.

A launcher is registered by name with `launcher`. Whatever it starts, it can tell beforehand as a list of tokens or as a
script's text, so that a test can check the exact command before it is run for real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from precice_lb.calibrate.launchers.plan import LauncherOptions, RunPlan, Task
from precice_lb.calibrate.processes import Outcome, ProcessSpec, run_processes
from precice_lb.exceptions import CalibrationError

__all__ = [
    "Launcher",
    "launcher",
    "launcher_class",
    "launcher_names",
    "make_launcher",
]


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

    def check_ranks(self, ranks: int) -> None:
        """Refuse a campaign whose largest run cannot be placed, before anything of it runs.

        Parameters
        ----------
        ranks : int
            Of all participants together.

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
