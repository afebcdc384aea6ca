"""What a launcher is given: its options, and a run with its participants' tasks."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from precice_lb.plugins import LAUNCHERS, close_match

__all__ = ["RUN_VARIABLES", "LauncherOptions", "RunPlan", "Task", "file_name", "nodes_of"]

# Environment variables that belong to a run: the campaign sets them or leaves them out, whatever they were before.
RUN_VARIABLES = ("PRECICE_LB_RECORD", "PRECICE_LB_DIR", "PRECICE_LB_AT_END", "PRECICE_LB_METADATA")

_Text = Annotated[str, Field(min_length=1)]
_Path = Annotated[Path, Field(strict=False)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class LauncherOptions(BaseModel):
    """A study's ``[launcher]`` table; each launcher knows some of its keys (`Launcher.keys`), perhaps more than these.

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
    participant, script, submit, cancel, job_number
        A template's command lines, script file and pattern, see `precice_lb.calibrate.launchers.template`.
    submit_retry_seconds
        How long a refused submission is tried again.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: _Text = "mpiexec"
    program: _Text | None = None
    arguments: _Texts = ()
    oversubscribe: bool = False
    pin: bool = True
    hostfile: _Path | None = None
    ranks_per_node: Annotated[int, Field(ge=1)] | None = None
    mpi: _Text | None = None
    options: Annotated[tuple[Annotated[str, Field(pattern=r"^-[^\s#]")], ...], Field(strict=False)] = ()
    allocation: Literal["run", "campaign"] = "run"
    setup: _Texts = ()
    participant: _Text | None = None
    script: _Path | None = None
    submit: _Text | None = None
    cancel: _Text | None = None
    job_number: _Text | None = None
    submit_retry_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3600.0

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in LAUNCHERS:
            names = sorted(LAUNCHERS)
            raise ValueError(f"expected one of {', '.join(names)}, found {name!r}{close_match(name, names)}")
        return name


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
    directory, log : Path
        Where it runs, and where what it prints goes.
    ranks_per_node : int or None
        Its own, where it differs from the launcher's.
    options : tuple of str
        Of the batch system, for this participant alone.
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


def file_name(participant: str) -> str:
    """Return a participant's name as part of a file's name, which file systems limit to 255 bytes."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", participant)
    return name if len(name) <= 160 else f"{name[:160]}_{hashlib.sha256(participant.encode()).hexdigest()[:16]}"


def nodes_of(task: Task, options: LauncherOptions) -> int | None:
    """Return how many nodes a participant gets for itself, None where nothing was said of ranks per node."""
    per_node = task.ranks_per_node or options.ranks_per_node
    return None if per_node is None else -(-task.ranks // per_node)
