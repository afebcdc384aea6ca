"""The tables of a study file, as immutable records with its keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, field_validator, model_validator

from precice_lb.calibrate.plan import VERSION_VARIABLE
from precice_lb.case.machine import Grid, NodeKind
from precice_lb.case.tables import Count, Options, Section, Text, Whole
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layout, Layouts, layout_from
from precice_lb.names import checked_name
from precice_lb.split.decomposition import grid_of


class VersionSection(Section):
    """``[[participants.versions]]``: one of several programs that may be a participant, such as one on GPUs.

    ``options``, ``prepare`` and ``environment`` are added to those of the participant.
    """

    name: Annotated[str, BeforeValidator(lambda name: checked_name(name, "version"))]
    command: Text
    gpus_per_rank: Count = 0
    ranks_per_node: Whole | None = None
    kind: Text | None = None
    options: Options = ()
    prepare: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(default_factory=dict)


_List = Field(strict=False)
_Template = Annotated[str, Field(pattern=r"[^/]\.in$")]


def _number(value: object, text: str | None, expected: str) -> object:
    """Refuse what is neither a number from 1 nor that text."""
    if (type(value) is int and value >= 1) or (isinstance(value, str) and value == text):
        return value
    raise ValueError(f"expected {expected}, found {value!r}")


def _of_split(value: object) -> object:
    """Refuse what says neither how many nor "1x8", ranks and threads."""
    if isinstance(value, str):
        layout_from(value)
        return value
    return _number(value, None, 'a number from 1, or ranks x threads such as "1x8"')


def _printable(name: object) -> object:
    """Refuse what would be more than a part of a line, in scripts and in the file that tells how a job ended."""
    if isinstance(name, str) and not name.isprintable():
        raise ValueError(f"expected printable characters, found {name!r}")
    return name


def _pair(value: object) -> object:
    """Refuse what is not a pair of numbers from 1."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(each) is int and each >= 1 for each in value):
        return value
    raise ValueError(f"expected pairs of ranks and threads, such as [[1, 4], [2, 4]], found {value!r}")


_Free = Annotated[int | str, BeforeValidator(lambda value: _number(value, _FREE, f'a number from 1, or "{_FREE}"'))]
_Given = Annotated[int | str, BeforeValidator(_of_split)]
_Pair = Annotated[tuple[int, ...], BeforeValidator(_pair), Field(strict=False)]

# Of ranks and threads that the split decides.
_FREE = "free"
# Key of a table of commands.
OTHER_RANKS = "default"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class CaseSection(Section):
    """``[case]``: directory (relative to the study file), and what in it is patched, linked instead of copied.

    ``network`` is the interface over which the sockets of the coupling meet; ``restart`` is a directory (relative to
    the study file) whose files are laid over each copy of the case, so that runs begin in a developed state.
    """

    directory: Text = "."
    configuration: Text = "precice-config.xml"
    link: Annotated[tuple[Text, ...], _List] = ()
    network: Text | None = None
    restart: Text | None = None


class RunsSection(Section):
    """``[runs]``: how long a run is and how many there are; ``windows`` includes the warm-up windows."""

    windows: Annotated[int, Field(ge=1)] = 12
    warmup_windows: Annotated[int, Field(ge=0)] = 2
    time_limit_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    maximum: Annotated[int, Field(ge=1, le=100)] = 5
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    core_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    target_regret: Annotated[float, Field(ge=0, lt=1)] = 0.002
    existing: Annotated[tuple[Text, ...], _List] = ()
    directory: Text | None = None
    splits: Annotated[tuple[dict[str, _Given], ...], _List] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    on_failure: Literal["skip", "stop"] = "skip"


class ChainSection(Section):
    """``[chain]``: production in segments: time ``windows`` or wall ``minutes`` of each, ``total`` windows of all.

    ``carry`` are patterns, relative to the case, of what a segment takes over from the one before, without any all that
    lies there; ``start`` is the first split.
    """

    windows: Annotated[int, Field(ge=1)] | None = None
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    total: Annotated[int, Field(ge=1)] | None = None
    start: dict[str, _Given] | None = None
    carry: Annotated[tuple[Text, ...], _List] = ()


class MeshSection(Section):
    """``[[meshes]]``: a smaller mesh to run first: its ``parameter``, and the variables that make the case take it."""

    parameter: Annotated[
        dict[str, float], Field(min_length=1, validation_alias=AliasChoices("parameter", "parameters"))
    ]
    environment: dict[Annotated[str, Field(pattern=VARIABLE)], str] = Field(default_factory=dict)
    runs: Annotated[int, Field(ge=1, le=20)] = 2

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return what makes runs on it comparable."""
        return {"parameters": dict(self.parameter), "environment": dict(self.environment)}


class BudgetSection(Section):
    """``[budget]``: ranks of the largest run, and of the recommendation unless ``[machine]`` counts others.

    They are cores, and may be named so, where participants have threads. ``kinds`` are nodes of several kinds.
    """

    ranks: Annotated[Whole, Field(validation_alias=AliasChoices("ranks", "cores"))]
    kinds: Annotated[tuple[NodeKind, ...], _List] = ()


class RecommendSection(Section):
    """``[recommend]``: what a recommendation rests on, and what it lists, with the words of `recommend_split`."""

    level: Annotated[float, Field(gt=0, lt=1)] | None = None
    within: Annotated[float, Field(ge=0, lt=1)] = 0.05
    learner: Text | None = None
    learner_parameters: dict[str, Any] | None = None
    accept_missing_ranks: bool | None = None


class BoundsSection(Section):
    """The ranks and threads that a participant may have, and its unknowns.

    ``ranks`` and ``threads`` are fixed or ``"free"``, or ``pairs`` list them both.
    """

    ranks: _Free | None = None
    threads: _Free = 1
    pairs: Annotated[tuple[_Pair, ...], Field(strict=False, min_length=1)] | None = None
    minimum_ranks: Annotated[Whole, Field(validation_alias=AliasChoices("minimum_ranks", "minimum_cores"))] = 1
    maximum_ranks: Annotated[Whole | None, Field(validation_alias=AliasChoices("maximum_ranks", "maximum_cores"))] = (
        None
    )
    degrees_of_freedom: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    grid: Grid | None = None
    decomposition: Annotated[int, Field(ge=1, le=3)] | None = None

    @property
    def cut(self) -> tuple[float, ...] | None:
        """The grid that its ranks cut; None where nothing is said of that."""
        return tuple(self.grid or ()) or (None if self.decomposition is None else grid_of(self.decomposition))

    @model_validator(mode="after")
    def _checked_layouts(self) -> BoundsSection:
        pairs = self.pairs or ()
        if pairs and self.model_fields_set & {"ranks", "threads"}:
            raise ValueError("expected either pairs, or ranks and threads, found both")
        if twice := [pair for at, pair in enumerate(pairs) if pair in pairs[:at]]:
            raise ValueError(f"pairs: expected each once, found {list(twice[0])} twice")
        try:
            _ = self.layouts
        except InfeasibleError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def layouts(self) -> Layouts:
        """Ranks and threads that it may have."""
        if self.pairs:
            return Layouts(None, None, tuple(Layout(*pair) for pair in self.pairs))
        threads = self.threads if isinstance(self.threads, int) else None
        unsaid = 1 if self.ranks is None and threads is None else None
        return Layouts(self.ranks if isinstance(self.ranks, int) else unsaid, threads)


class ParticipantSection(BoundsSection):
    """``[[participants]]``: how one participant is prepared and started, and the ranks it may get.

    ``command`` may be a table from numbers of ranks, as texts, to commands; ``"default"`` has those that are not named.
    """

    name: Annotated[Text, BeforeValidator(_printable)]
    command: Text | dict[str, Text]
    directory: Text = "."
    ranks_per_node: Whole | None = None
    options: Options = ()
    prepare: Annotated[tuple[Text, ...], _List] = ()
    collect: Annotated[tuple[Text, ...], _List] = ()
    templates: Annotated[tuple[_Template, ...], _List] = ()
    environment: dict[Annotated[str, Field(pattern=VARIABLE)], str] = Field(default_factory=dict)
    kind: Text | None = None
    versions: Annotated[tuple[VersionSection, ...], Field(strict=False)] = ()

    @model_validator(mode="before")
    @classmethod
    def _command_or_versions(cls, table: object) -> object:
        if not isinstance(table, dict) or not table.get("versions"):
            return table
        if "command" in table:
            raise ValueError("expected either a command, or versions that have one each, found both")
        first = table["versions"][0] if isinstance(table["versions"], list) else None
        # What it is until a version is chosen.
        return {**table, "command": first.get("command", "-") if isinstance(first, dict) else "-"}

    @property
    def version(self) -> str:
        """The version that was chosen; empty where there are none, or none was."""
        return self.environment.get(VERSION_VARIABLE, "")

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
