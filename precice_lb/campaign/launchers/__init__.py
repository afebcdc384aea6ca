"""What a launcher is: it says how each participant of a run starts.

A launcher is known by its name in `precice_lb.plugins.LAUNCHERS`. Whatever it starts, it tells beforehand as a list of
tokens or as a script's text, so that a test can check the exact command before it is run for real.
"""

from __future__ import annotations

import copy
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from precice_lb.campaign.plan import RunPlan, Task, cores_of
from precice_lb.campaign.processes import Outcome, run_processes
from precice_lb.campaign.schedulers import SlurmScheduler
from precice_lb.case.tables import Text, Whole, explain
from precice_lb.exceptions import CalibrationError, StudyError
from precice_lb.plugins import LAUNCHERS, close_match
from precice_lb.text import plural, say

__all__ = ["Launcher", "launcher_from"]


class Launcher(ABC):
    """Says with which command line each participant of a run starts; what else is here may be left as it is.

    A subclass is a dataclass and gives `command`. Its fields are the keys of a study's ``[launcher]`` table: their
    annotations say what may be given, their defaults what may be left out. Runs are processes of this machine.

    Attributes
    ----------
    name : str
        By which the study asks for it.
    directory : Path
        Where the campaign lives.
    scheduler : SlurmScheduler or None
        Takes runs as jobs; None where they are processes of this machine.
    many_nodes : bool
        Whether participants may come to lie on different nodes.
    gives_threads : bool
        Whether each rank gets a core for each of its threads, `Task.threads`; otherwise ranks are all it knows.
    can_stop : bool
        Whether it stops every rank of a run, wherever that is.
    warn : callable
        Is told what somebody has to do while a run waits.
    """

    # Keys are what the fields say: "1" is no number, 1 not true.
    __pydantic_config__ = ConfigDict(strict=True)
    name: str = ""
    directory = Path()
    scheduler: SlurmScheduler | None = None
    many_nodes: bool = False
    gives_threads: bool = False
    can_stop: bool = True
    warn: Callable[[str], None]

    def ready(self, directory: Path = Path()) -> Launcher:
        """Return a launcher with the same keys, and with what it needs of this machine.

        Parameters
        ----------
        directory : Path
            Where the campaign lives.
        """
        ready = copy.copy(self)
        ready.directory = directory
        ready.warn = lambda text: say(f"precice-lb: {text}", sys.stderr)
        ready.locate()
        return ready

    def locate(self) -> None:  # noqa: B027
        """Look for what is needed of this machine; the constructor looks at the keys alone.

        Raises
        ------
        CalibrationError
            When something is missing.
        """

    @abstractmethod
    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the command line of a participant, as tokens.

        Parameters
        ----------
        plan : RunPlan
            The run.
        task : Task
            One of its tasks.
        """

    def starts(self, plan: RunPlan) -> tuple[Task, ...]:
        """Return the tasks of a run, each with the whole command line that starts it in its environment.

        Parameters
        ----------
        plan : RunPlan
            The run.
        """
        return tuple(replace(task, command=(*task.setting, *self.command(plan, task))) for task in plan.tasks)

    def files(self, plan: RunPlan) -> dict[Path, str]:
        """Return the files that a run needs, with their text: of a job, its script.

        Parameters
        ----------
        plan : RunPlan
            The run.
        """
        return {}

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Return the environment of the commands: without what would mislead them, with what they need.

        Parameters
        ----------
        inherited : dict of str to str
            The campaign's own, with the study's variables.
        """
        return inherited

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
        self.check_cores(cores_of(tasks))

    def room(self) -> int | None:
        """Return how many cores there are for all ranks and their threads; None where any number may be asked for."""
        return None

    def check_cores(self, cores: int) -> None:
        """Refuse more ranks and threads than there are cores: a run's, or those of a campaign's largest one.

        Parameters
        ----------
        cores : int
            Of all participants together.

        Raises
        ------
        CalibrationError
            There are fewer.
        """
        if (room := self.room()) is not None and cores > room:
            raise CalibrationError(
                f"expected at most {plural(room, 'core')} for all ranks and their threads, found {cores}: lower the "
                "budget, take more cores, or, where the load is emulated, let mpiexec oversubscribe"
            )

    def run(self, plan: RunPlan, note: Callable[[str], None], job: str | None = None) -> Outcome:
        """Run a plan to its end, and leave nothing running.

        Parameters
        ----------
        plan : RunPlan
            The run; `check` has passed.
        note : callable
            Called with the job's number as soon as there is one.
        job : str, optional
            The number under which a campaign that has ended submitted it: it is only waited for.

        Returns
        -------
        Outcome
            What the run's processes came to.
        """
        outcome = None
        try:
            environment = self.environment(plan.environment())
            limit = plan.time_limit_seconds
            outcome = run_processes(self.starts(plan), environment, plan.token, limit, plan.enough)
            return outcome
        finally:
            if outcome is None or outcome.error is not None or outcome.enough:
                self.stop(plan.token, None)

    def stop(self, token: str, job: str | None) -> None:  # noqa: B027
        """Stop what an interrupted campaign left running beyond this machine's processes.

        Parameters
        ----------
        token : str
            Marks the run's processes.
        job : str or None
            Its number in a batch system.
        """


@dataclass(kw_only=True)
class ProgramLauncher(Launcher):
    """One that starts participants by a program of an MPI or of a batch system.

    Parameters
    ----------
    program : str, optional
        The program to use.
    arguments : sequence of str
        Further arguments of that program.
    ranks_per_node : int, optional
        Ranks on each node; every participant then gets nodes of its own. Take production's: ranks share the memory's
        bandwidth.
    pin : bool
        Bind each rank to a core that no other rank has.
    """

    program: Text | None = None
    arguments: tuple[Text, ...] = ()
    ranks_per_node: Whole | None = None
    pin: bool = True


def launcher_from(table: object, directory: Path) -> Launcher:
    """Make the launcher that a study's ``[launcher]`` table asks for, whose paths are relative to a directory."""
    if not isinstance(table, dict):
        raise StudyError(f"launcher: expected a table, found {table!r}")
    keys = dict(table)
    if (name := keys.pop("name", "mpiexec")) not in (names := sorted(LAUNCHERS)):
        close = close_match(str(name), names)
        raise StudyError(f"launcher.name: expected one of {', '.join(names)}, found {name!r}{close}")
    kind: Any = LAUNCHERS[name]
    is_launcher = isinstance(kind, type) and issubclass(kind, Launcher) and is_dataclass(kind)
    if not is_launcher:
        raise StudyError(
            f"launcher {name!r}: expected a dataclass derived from precice_lb.campaign.Launcher, found {kind!r}; "
            "repair or uninstall the distribution that adds it"
        )
    known = sorted(field.name for field in fields(kind))
    if unknown := sorted(keys.keys() - known):
        raise StudyError(
            f"launcher: {unknown[0]}: the launcher {name} does not know this key, only {', '.join(known) or 'name'}"
            f"{close_match(unknown[0], known)}"
        )
    try:
        # As JSON, since there a text may be a path and a list a tuple.
        launcher: Launcher = TypeAdapter(kind).validate_json(json.dumps(keys, default=str))
    except ValidationError as error:
        raise StudyError(f"launcher.{explain(error, keys, kind)}") from None
    for key in keys:
        if isinstance(path := getattr(launcher, key), Path):
            setattr(launcher, key, place(path, directory))
    launcher.name = name
    return launcher


def place(path: str | Path, directory: Path) -> Path:
    """Return an absolute path that is relative to a directory."""
    return (directory / Path(path).expanduser()).resolve()
