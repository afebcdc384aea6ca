"""The study: what to calibrate, and what follows from its tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, Field, field_validator

from precice_lb.calibrate.design import allowed_counts
from precice_lb.calibrate.launchers import launcher_class
from precice_lb.calibrate.plan import LauncherOptions
from precice_lb.calibrate.sections import (
    VARIABLE,
    BudgetSection,
    CaseSection,
    ChainSection,
    EmulationSection,
    MachineSection,
    MeshSection,
    ParticipantSection,
    RunsSection,
    Section,
)
from precice_lb.calibrate.state import Settings
from precice_lb.exceptions import StudyError
from precice_lb.plugins import choices, close_match
from precice_lb.plural import plural
from precice_lb.split import Constraints

__all__ = ["Study"]


class Study(Section):
    """A checked study. ``path`` is the file it was read from, absolute; every other path is relative as written."""

    path: Annotated[Path, Field(exclude=True)]
    case: CaseSection
    runs: RunsSection = RunsSection()
    budget: BudgetSection
    launcher: LauncherOptions = LauncherOptions()
    emulation: EmulationSection | None = None
    environment: dict[Annotated[str, Field(pattern=VARIABLE)], str] = Field(default_factory=dict)
    parameter: dict[str, float] = Field(default_factory=dict, validation_alias=AliasChoices("parameter", "parameters"))
    machine: MachineSection = MachineSection()
    meshes: Annotated[tuple[MeshSection, ...], Field(strict=False)] = ()
    chain: ChainSection | None = None
    participants: Annotated[tuple[ParticipantSection, ...], Field(strict=False, min_length=1)]

    @property
    def case_directory(self) -> Path:
        """Absolute path of the case."""
        return self._place(self.case.directory)

    @property
    def configuration_path(self) -> Path:
        """Absolute path of the case's ``precice-config.xml``."""
        return self.case_directory / self.case.configuration

    @property
    def restart_path(self) -> Path | None:
        """Absolute path of the files of a developed state, None where runs begin as the case does."""
        return None if self.case.restart is None else self._place(self.case.restart)

    @property
    def law_path(self) -> Path | None:
        """Absolute path of the emulated loads' laws, None when the load is real."""
        return None if self.emulation is None else self.case_directory / self.emulation.law

    @property
    def campaign_directory(self) -> Path:
        """Where the campaign lives unless told otherwise: ``runs.directory``, or ``<study>-campaign`` beside it."""
        return self._place(self.runs.directory or f"{self.path.stem}-campaign")

    @property
    def existing_runs(self) -> tuple[Path, ...]:
        """Absolute paths of the stores of runs that were made before and count as measurements."""
        return tuple(map(self._place, self.runs.existing))

    @field_validator("launcher")
    @classmethod
    def _known_keys(cls, options: LauncherOptions) -> LauncherOptions:
        """Refuse keys that the launcher does not know."""
        known = sorted(launcher_class(options.name).keys)
        for key in sorted(options.model_fields_set - {"name", *known}):
            close = close_match(key, known)
            raise ValueError(
                f"{key}: the launcher {options.name} does not know this key, only {', '.join(known)}{close}"
            )
        return options

    @property
    def launcher_options(self) -> LauncherOptions:
        """Return the launcher's options with absolute paths."""
        paths = {key: getattr(self.launcher, key) for key in ("hostfile", "script")}
        return self.launcher.model_copy(
            update={key: self._place(path) for key, path in paths.items() if path is not None}
        )

    def _place(self, path: str | Path) -> Path:
        """Return a path that is relative to the study file."""
        return (self.path.parent / Path(path).expanduser()).resolve()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the participants, in the study's order."""
        return tuple(participant.name for participant in self.participants)

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest number of ranks of each participant, as its table says."""
        most = self.budget.ranks
        return {p.name: (p.minimum_ranks, p.maximum_ranks or most) for p in self.participants}

    @cached_property
    def allow(self) -> dict[str, list[int]]:
        """Rank counts that the machine allows, within the bounds; empty where it leaves all of them."""
        _, constraints = self.settings().constraints()
        if constraints == Constraints():
            return {}
        low, high = ({name: bound[end] for name, bound in self.bounds.items()} for end in (0, 1))
        return allowed_counts(constraints, self.names, self.budget.ranks, low, high)

    def require_split(self, split: Mapping[str, int]) -> None:
        """Refuse a split that this study does not allow.

        Parameters
        ----------
        split : mapping from participant to int
            Ranks.

        Raises
        ------
        StudyError
            Names, bounds, the machine or the budget say otherwise.
        """
        for name in split:
            if name not in self.names:
                raise StudyError(f"unknown participant {name!r}{choices(name, list(self.names))}")
        for name, (least, most) in self.bounds.items():
            if name not in split:
                raise StudyError(f"no ranks for participant {name!r}; name each once")
            if not least <= split[name] <= most:
                raise StudyError(
                    f"expected {least} to {plural(most, 'rank')} for {name!r}, found {split[name]}; change the split, "
                    f"or the bounds of {name!r} or the budget"
                )
            if split[name] not in (allowed := self.allow.get(name, [split[name]])):
                raise StudyError(
                    f"expected ranks for {name!r} that [machine] allows ({', '.join(map(str, allowed))}), found "
                    f"{split[name]}; change the split, or [machine]"
                )
        if (total := sum(split.values())) > self.budget.ranks:
            raise StudyError(
                f"expected at most the {plural(self.budget.ranks, 'rank')} of the budget, found {total}; change the "
                "split, or budget.ranks"
            )

    @property
    def degrees_of_freedom(self) -> dict[str, float]:
        """Degrees of freedom of the participants whose number is stated."""
        return {p.name: p.degrees_of_freedom for p in self.participants if p.degrees_of_freedom is not None}

    def settings(self, learner: str | None = None) -> Settings:
        """Return what a recommendation needs to know of this study.

        Parameters
        ----------
        learner : str, optional
            Who learns.
        """
        return Settings(
            total_ranks=self.budget.ranks,
            minimum_ranks={p.name: p.minimum_ranks for p in self.participants},
            maximum_ranks={p.name: p.maximum_ranks for p in self.participants if p.maximum_ranks is not None},
            parameters=dict(self.parameter),
            machine=None if self.machine == MachineSection() else self.machine,
            existing=[str(path) for path in self.existing_runs],
            learner=learner,
            target_regret=self.runs.target_regret,
        )

    def identity(self) -> dict[str, Any]:
        """Return what makes two studies measure the same thing: runs of others must not be mixed with these.

        Bounds, budget, number of runs, time limit and launcher are left out: changing them leaves finished runs valid;
        but with other ranks per node they would have shared the memory's bandwidth otherwise.
        """
        return {
            "case.directory": str(self.case_directory),
            "case.configuration": hashlib.sha256(self.configuration_path.read_bytes()).hexdigest(),
            "case.restart": None if self.restart_path is None else str(self.restart_path),
            "runs.windows": self.runs.windows,
            "runs.warmup_windows": self.runs.warmup_windows,
            "environment": dict(self.environment),
            "parameters": dict(self.parameter),
            **({"meshes": [mesh.identity() for mesh in self.meshes]} if self.meshes else {}),
            "participants": {
                p.name: {
                    "command": p.command,
                    "directory": p.directory,
                    "degrees_of_freedom": p.degrees_of_freedom,
                    "ranks_per_node": p.ranks_per_node or self.launcher.ranks_per_node,
                    "prepare": list(p.prepare),
                    "templates": list(p.templates),
                }
                for p in self.participants
            },
        }
