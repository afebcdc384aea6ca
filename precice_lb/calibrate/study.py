"""The study: what to calibrate, as immutable records with the keys of the study file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from precice_lb.calibrate.choices import close_match
from precice_lb.calibrate.launch import launcher_names

__all__ = [
    "RUN_VARIABLES",
    "BudgetSection",
    "CaseSection",
    "EmulationSection",
    "LauncherSection",
    "ParticipantSection",
    "RunsSection",
    "Study",
]

# Environment variables that belong to a run: the campaign sets them or leaves them out, whatever they were before.
RUN_VARIABLES = ("PRECICE_LB_RECORD", "PRECICE_LB_DIR", "PRECICE_LB_AT_END", "PRECICE_LB_METADATA")

_Ranks = Annotated[int, Field(ge=1)]
_Text = Annotated[str, Field(min_length=1)]
_List = Field(strict=False)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CaseSection(_Section):
    """``[case]``: directory (relative to the study file) and configuration (relative to the directory)."""

    directory: _Text
    configuration: _Text = "precice-config.xml"


class RunsSection(_Section):
    """``[runs]``: how long a run is and how many there are; ``windows`` includes the warm-up windows."""

    windows: Annotated[int, Field(ge=1)] = 12
    warmup_windows: Annotated[int, Field(ge=0)] = 2
    time_limit_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    maximum: Annotated[int, Field(ge=1, le=100)] = 5
    directory: _Text | None = None
    splits: Annotated[tuple[dict[str, _Ranks], ...], _List] | None = None


class BudgetSection(_Section):
    """``[budget]``: the largest total number of ranks of a run."""

    ranks: _Ranks


class LauncherSection(_Section):
    """``[launcher]``: the registered launcher, and its program and arguments where the usual ones do not do."""

    name: _Text = "mpiexec"
    program: _Text | None = None
    arguments: Annotated[tuple[str, ...], _List] = ()

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in launcher_names():
            raise ValueError(
                f"expected one of {', '.join(launcher_names())}, found {name!r}{close_match(name, launcher_names())}"
            )
        return name


class EmulationSection(_Section):
    """``[emulation]``: the load is emulated by the laws in this file (relative to the case directory)."""

    law: _Text


class ParticipantSection(_Section):
    """``[[participants]]``: how one participant is started, and the ranks it may get."""

    name: _Text
    command: _Text
    directory: _Text = "."
    minimum_ranks: _Ranks = 1
    maximum_ranks: _Ranks | None = None
    degrees_of_freedom: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Study(_Section):
    """A checked study. ``path`` is the file it was read from, absolute; every other path is relative as written."""

    path: Annotated[Path, Field(exclude=True)]
    case: CaseSection
    runs: RunsSection = RunsSection()
    budget: BudgetSection
    launcher: LauncherSection = LauncherSection()
    emulation: EmulationSection | None = None
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    parameters: dict[str, float] = {}
    participants: Annotated[tuple[ParticipantSection, ...], Field(strict=False, min_length=1)]

    @property
    def case_directory(self) -> Path:
        """Absolute path of the case."""
        return (self.path.parent / Path(self.case.directory).expanduser()).resolve()

    @property
    def configuration_path(self) -> Path:
        """Absolute path of the case's ``precice-config.xml``."""
        return self.case_directory / self.case.configuration

    @property
    def law_path(self) -> Path | None:
        """Absolute path of the emulated loads' laws, None when the load is real."""
        return None if self.emulation is None else self.case_directory / self.emulation.law

    @property
    def campaign_directory(self) -> Path:
        """Where the campaign lives unless told otherwise: ``runs.directory``, or ``<study>-campaign`` beside it."""
        name = self.runs.directory or f"{self.path.stem}-campaign"
        return (self.path.parent / Path(name).expanduser()).resolve()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the participants, in the study's order."""
        return tuple(participant.name for participant in self.participants)

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest number of ranks of each participant."""
        most = self.budget.ranks
        return {p.name: (p.minimum_ranks, p.maximum_ranks or most) for p in self.participants}

    @property
    def degrees_of_freedom(self) -> dict[str, float]:
        """Degrees of freedom of the participants whose number is stated."""
        return {p.name: p.degrees_of_freedom for p in self.participants if p.degrees_of_freedom is not None}

    def identity(self) -> dict[str, Any]:
        """Return what makes two studies measure the same thing: runs of others must not be mixed with these.

        Bounds, budget, number of runs, time limit and launcher are left out: changing them leaves finished runs valid.
        """
        return {
            "case.directory": str(self.case_directory),
            "case.configuration": hashlib.sha256(self.configuration_path.read_bytes()).hexdigest(),
            "runs.windows": self.runs.windows,
            "runs.warmup_windows": self.runs.warmup_windows,
            "environment": dict(self.environment),
            "parameters": dict(self.parameters),
            "participants": {
                p.name: {"command": p.command, "directory": p.directory, "degrees_of_freedom": p.degrees_of_freedom}
                for p in self.participants
            },
        }
