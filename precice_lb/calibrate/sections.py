"""The tables of a study file, as immutable records with its keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from precice_lb.recommend import Machine
from precice_lb.split import SharedCores

__all__ = [
    "VARIABLE",
    "BudgetSection",
    "CaseSection",
    "ChainSection",
    "EmulationSection",
    "MachineSection",
    "MeshSection",
    "ParticipantSection",
    "RunsSection",
    "Section",
    "SharedSection",
]

_Ranks = Annotated[int, Field(ge=1)]
_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1)]
_List = Field(strict=False)
_Template = Annotated[str, Field(pattern=r"[^/]\.in$")]


# Key of a table of commands.
OTHER_RANKS = "default"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class Section(BaseModel):
    """A table: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CaseSection(Section):
    """``[case]``: directory (relative to the study file), and what in it is patched, linked instead of copied.

    ``network`` is the interface over which the sockets of the coupling meet; ``restart`` is a directory (relative to
    the study file) whose files are laid over each copy of the case, so that runs begin in a developed state.
    """

    directory: _Text
    configuration: _Text = "precice-config.xml"
    link: Annotated[tuple[_Text, ...], _List] = ()
    network: _Text | None = None
    restart: _Text | None = None


class RunsSection(Section):
    """``[runs]``: how long a run is and how many there are; ``windows`` includes the warm-up windows."""

    windows: Annotated[int, Field(ge=1)] = 12
    warmup_windows: Annotated[int, Field(ge=0)] = 2
    time_limit_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    design: Literal["adaptive", "space-filling", "grid", "doubling"] = "adaptive"
    maximum: Annotated[int, Field(ge=1, le=100)] = 5
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    core_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    target_regret: Annotated[float, Field(ge=0, lt=1)] = 0.002
    existing: Annotated[tuple[_Text, ...], _List] = ()
    directory: _Text | None = None
    splits: Annotated[tuple[dict[str, _Ranks], ...], _List] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    on_failure: Literal["skip", "stop"] = "skip"

    @field_validator("design", mode="before")
    @classmethod
    def _earlier_name(cls, design: object) -> object:
        return "space-filling" if design == "spread" else design


class ChainSection(Section):
    """``[chain]``: production in segments: time ``windows`` or wall ``minutes`` of each, ``total`` windows of all.

    ``carry`` are patterns, relative to the case, of what a segment takes over from the one before, without any all that
    lies there; ``start`` is the first split.
    """

    windows: Annotated[int, Field(ge=1)] | None = None
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    total: Annotated[int, Field(ge=1)] | None = None
    start: dict[str, _Ranks] | None = None
    carry: Annotated[tuple[_Text, ...], _List] = ()


class MeshSection(Section):
    """``[[meshes]]``: a smaller mesh to run first: its ``parameter``, and the variables that make the case take it."""

    parameter: Annotated[
        dict[str, float], Field(min_length=1, validation_alias=AliasChoices("parameter", "parameters"))
    ]
    environment: dict[Annotated[str, Field(pattern=VARIABLE)], str] = {}
    runs: Annotated[int, Field(ge=1, le=20)] = 2

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return what makes runs on it comparable."""
        return {"parameters": dict(self.parameter), "environment": dict(self.environment)}


class BudgetSection(Section):
    """``[budget]``: ranks of the largest run, and of the recommendation unless ``[machine]`` counts others."""

    ranks: _Ranks


class SharedSection(Section):
    """An entry of ``machine.shared``: turns of participants on the same cores, and what taking turns costs, a share."""

    turns: Annotated[tuple[Annotated[tuple[_Text, ...], _List], ...], _List]
    overhead: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class MachineSection(Section):
    """``[machine]``: what a split has to fit, with the keys of `precice_lb.recommend.Machine`."""

    cores: _Ranks | None = None
    nodes: _Ranks | None = None
    cores_per_node: _Ranks | None = None
    gpus_per_node: _Count | None = None
    gpus: _Count | None = None
    whole_nodes: bool | Annotated[tuple[_Text, ...], _List] | None = None
    threads: _Ranks | dict[str, _Ranks] | None = None
    gpus_per_rank: dict[str, _Count] | None = None
    multiple: _Ranks | dict[str, _Ranks] | None = None
    allow: dict[str, Annotated[tuple[_Ranks, ...], Field(strict=False, min_length=1)]] | None = None
    fixed: dict[str, _Ranks] | None = None
    memory: dict[str, _Amount] | None = None
    memory_per_rank: _Amount | dict[str, _Amount] | None = None
    elements: dict[str, _Amount] | None = None
    elements_per_rank: _Amount | dict[str, _Amount] | None = None
    shared: Annotated[tuple[SharedSection, ...], _List] | None = None

    def machine(self) -> Machine:
        """Return it as what `precice_lb.recommend_split` takes."""
        shared = [SharedCores(each.turns, each.overhead) for each in self.shared] if self.shared else ()
        return Machine(**self.model_dump(exclude={"shared"}), shared=shared)


class EmulationSection(Section):
    """``[emulation]``: the load is emulated by the laws in this file (relative to the case directory)."""

    law: _Text


class ParticipantSection(Section):
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
    collect: Annotated[tuple[_Text, ...], _List] = ()
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
