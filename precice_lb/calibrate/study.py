"""The study: what to calibrate, as immutable records with the keys of the study file."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from precice_lb.calibrate.launchers import RUN_VARIABLES, LauncherOptions, launcher_class
from precice_lb.calibrate.state import Settings
from precice_lb.plugins import close_match

__all__ = [
    "RUN_VARIABLES",
    "BudgetSection",
    "CaseSection",
    "EmulationSection",
    "ParticipantSection",
    "RunsSection",
    "Study",
]

_Ranks = Annotated[int, Field(ge=1)]
_Text = Annotated[str, Field(min_length=1)]
_List = Field(strict=False)
_Template = Annotated[str, Field(pattern=r"[^/]\.in$")]


# Key of a table of commands.
OTHER_RANKS = "default"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CaseSection(_Section):
    """``[case]``: directory (relative to the study file), and what in it is patched, linked instead of copied.

    ``network`` is the interface over which the sockets of the coupling meet; ``restart`` is a directory (relative to
    the study file) whose files are laid over each copy of the case, so that runs begin in a developed state.
    """

    directory: _Text
    configuration: _Text = "precice-config.xml"
    link: Annotated[tuple[_Text, ...], _List] = ()
    network: _Text | None = None
    restart: _Text | None = None


class RunsSection(_Section):
    """``[runs]``: how long a run is and how many there are; ``windows`` includes the warm-up windows."""

    windows: Annotated[int, Field(ge=1)] = 12
    warmup_windows: Annotated[int, Field(ge=0)] = 2
    time_limit_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    design: Literal["adaptive", "spread", "grid", "doubling"] = "adaptive"
    maximum: Annotated[int, Field(ge=1, le=100)] = 5
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    core_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    target_regret: Annotated[float, Field(ge=0, lt=1)] = 0.002
    existing: Annotated[tuple[_Text, ...], _List] = ()
    directory: _Text | None = None
    splits: Annotated[tuple[dict[str, _Ranks], ...], _List] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    on_failure: Literal["skip", "stop"] = "skip"


class MeshSection(_Section):
    """``[[meshes]]``: a smaller mesh to run first: its ``parameters``, and the variables that make the case take it."""

    parameters: Annotated[dict[str, float], Field(min_length=1)]
    environment: dict[Annotated[str, Field(pattern=_VARIABLE)], str] = {}
    runs: Annotated[int, Field(ge=1, le=20)] = 2


class BudgetSection(_Section):
    """``[budget]``: the largest total number of ranks of a run."""

    ranks: _Ranks


class EmulationSection(_Section):
    """``[emulation]``: the load is emulated by the laws in this file (relative to the case directory)."""

    law: _Text


class ParticipantSection(_Section):
    """``[[participants]]``: how one participant is prepared and started, and the ranks it may get.

    ``command`` may be a table from numbers of ranks, as texts, to commands; ``"default"`` has those that are not named.
    """

    name: _Text
    command: _Text | dict[str, _Text]
    directory: _Text = "."
    minimum_ranks: _Ranks = 1
    maximum_ranks: _Ranks | None = None
    degrees_of_freedom: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    ranks_per_node: _Ranks | None = None
    options: Annotated[tuple[Annotated[str, Field(pattern=r"^-[^\s#]")], ...], _List] = ()
    prepare: Annotated[tuple[_Text, ...], _List] = ()
    templates: Annotated[tuple[_Template, ...], _List] = ()

    @field_validator("command", mode="before")
    @classmethod
    def _commands(cls, command: object) -> object:
        commands = command.values() if isinstance(command, dict) else [command]
        if not all(isinstance(each, str) and each for each in commands):
            raise ValueError(f"expected a text, or a table of texts by number of ranks, found {command!r}")
        if isinstance(command, dict):
            for key in command:
                if key != OTHER_RANKS and not re.fullmatch(r"[1-9][0-9]*", key):
                    raise ValueError(f"expected numbers of ranks from 1 and {OTHER_RANKS!r} as keys, found {key!r}")
            if OTHER_RANKS not in command:
                raise ValueError(f"expected the command for all other numbers of ranks as {OTHER_RANKS!r}, found none")
        return command

    def commands(self) -> dict[str, str]:
        """Return the commands by number of ranks, or ``"default"``."""
        return {OTHER_RANKS: self.command} if isinstance(self.command, str) else dict(self.command)

    def command_at(self, ranks: int) -> str:
        """Return what each of so many ranks runs."""
        commands = self.commands()
        return commands.get(str(ranks), commands[OTHER_RANKS])


class Study(_Section):
    """A checked study. ``path`` is the file it was read from, absolute; every other path is relative as written."""

    path: Annotated[Path, Field(exclude=True)]
    case: CaseSection
    runs: RunsSection = RunsSection()
    budget: BudgetSection
    launcher: LauncherOptions = LauncherOptions()
    emulation: EmulationSection | None = None
    environment: dict[Annotated[str, Field(pattern=_VARIABLE)], str] = {}
    parameters: dict[str, float] = {}
    meshes: Annotated[tuple[MeshSection, ...], _List] = ()
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
        """Smallest and largest number of ranks of each participant."""
        most = self.budget.ranks
        return {p.name: (p.minimum_ranks, p.maximum_ranks or most) for p in self.participants}

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
            parameters=dict(self.parameters),
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
            "parameters": dict(self.parameters),
            **({"meshes": [mesh.model_dump(exclude={"runs"}) for mesh in self.meshes]} if self.meshes else {}),
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
