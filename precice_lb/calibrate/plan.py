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

__all__ = ["RUN_VARIABLES", "LauncherOptions", "RunPlan", "Task", "file_name"]

# Environment variables that belong to a run: the campaign sets them or leaves them out, whatever they were before.
RUN_VARIABLES = ("PRECICE_LB_RECORD", "PRECICE_LB_DIR", "PRECICE_LB_AT_END", "PRECICE_LB_METADATA")

_Text = Annotated[str, Field(min_length=1)]
_Path = Annotated[Path, Field(strict=False)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class LauncherOptions(BaseModel):
    """A study's ``[launcher]`` table, whose keys ``configs/README.md`` describes.

    Each launcher knows some of them (`Launcher.keys`), perhaps more than these.
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
        On each of its nodes; None where it may share nodes with others.
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

    @property
    def nodes(self) -> int | None:
        """How many nodes it gets for itself; None where nothing was said of ranks per node."""
        return None if self.ranks_per_node is None else -(-self.ranks // self.ranks_per_node)

    @property
    def ranks_on_node(self) -> int:
        """Ranks on each of its nodes but the last; all of them where nothing was said of ranks per node."""
        return min(self.ranks_per_node or self.ranks, self.ranks)


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
