"""The tables of a study file, as immutable records with its keys."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from precice_lb.case.tables import Amount, Count, Options, StudySection, Text, Whole
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layout, Layouts, layout_from
from precice_lb.text import checked_name

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


def _ranks(value: object) -> object:
    """Refuse what is neither a number nor "free" nor a list of numbers and texts such as "1x8"."""
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError("expected at least one number of ranks, found none")
        if twice := [count for number, count in enumerate(value) if count in value[:number]]:
            raise ValueError(f"expected each once, found {twice[0]!r} twice")
        return tuple(map(_of_split, value))
    return _number(value, _FREE, f'a number from 1, "{_FREE}", or a list of numbers or of texts such as "1x8"')


_Free = Annotated[int | str, BeforeValidator(lambda value: _number(value, _FREE, f'a number from 1, or "{_FREE}"'))]
_Given = Annotated[int | str, BeforeValidator(_of_split)]
_Ranks = Annotated[int | str | Annotated[tuple[int | str, ...], _List], BeforeValidator(_ranks)]

# Tells a recorder which version of its participant it runs in.
VERSION_VARIABLE = "PRECICE_LB_VERSION"
# Of ranks and threads that the split decides.
_FREE = "free"
# Key of a table of commands.
OTHER_RANKS = "default"
Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]


def listed(tables: Any) -> Any:
    """Read tables by name, such as ``--set`` gives them, as a list of tables; Fluid:gpu is a version of Fluid."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        return tables
    entries: dict[str, dict[str, Any]] = {}
    for key, table in tables.items():
        name, _, version = key.partition(":")
        entry = entries.setdefault(name, {"name": name})
        if version:
            entry.setdefault("versions", {})[version] = table
        else:
            entry |= table
    return [*entries.values()]


class CaseSection(StudySection):
    """What is coupled.

    Attributes
    ----------
    directory
        Directory of the case, relative to the study file. Each run works on a copy of it; see "What a run does".
    configuration
        preCICE's configuration, relative to ``directory``, in which it must lie.
    link
        Patterns of files and directories, relative to the case, that runs get as links: ``["constant/polyMesh",
        "*.msh"]``. Nothing may write to them.
    network
        Interface over which the sockets of the coupling meet, such as ``"ib0"``, put into the copies of the
        configuration. Needed where participants lie on different nodes: preCICE's default is ``lo``.
    restart
        Directory, relative to the study file, whose files are laid over each run's copy, so that runs begin in a
        developed state: early windows of a quasi-Newton coupling need more iterations.
    environment
        Variables for every participant, ``NAME = "text"``, on top of the environment in which the campaign was started.
    parameter
        Numbers that describe the case, such as ``mesh_width = 0.01``; they are kept with every measurement.
    """

    directory: Text = "."
    configuration: Text = "precice-config.xml"
    link: Annotated[tuple[Text, ...], _List] = ()
    network: Text | None = None
    restart: Text | None = None
    environment: Variables = Field(default_factory=dict)
    parameter: dict[str, float | str] = Field(default_factory=dict)


class RunsSection(StudySection):
    """How long a run is and how many there are, and what is said of them.

    Attributes
    ----------
    windows
        The most time windows of a run, the warm-up windows included. See "When a run ends".
    warmup_windows
        Windows at the start of each run that are not counted. Must be less than ``windows``.
    all_windows
        Every run takes all its windows, and its solvers end by themselves.
    time_limit_seconds
        A run that takes longer, start-up included, is stopped and recorded as such.
    maximum
        The most splits to measure, at most 100. See "Which splits are measured".
    core_hours
        A campaign also ends when all runs together took this much.
    target_regret
        It ends when the recommended split is expected to be slower than the best one by less than this share.
    existing
        Directories of stores of earlier runs of the same case, relative to the study file: they count as first
        measurements.
    directory
        Where the campaign lives, relative to the study file; by default ``<study>-campaign`` beside it.
    splits
        Splits to measure instead: ``[{ A = 4, B = 12 }, { A = 8, B = 8 }]``; ``maximum`` has no effect then. A
        participant with threads has a number of cores, or ``"1x8"``, ranks x threads.
    retries
        How often a run that failed is tried again at once, at most 10; then the next split follows.
    within
        Splits whose window is at most this share longer than the best one's are listed.
    accept_missing_ranks
        Learn also from runs of which ranks are missing, perhaps the slowest.
    learner
        Another performance model than ``"bayes"``; with what it takes, ``{ name = "pmnf", folds = 3 }``.
    """

    windows: Annotated[int, Field(ge=1)] = 12
    warmup_windows: Annotated[int, Field(ge=0)] = 2
    all_windows: bool = False
    time_limit_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    maximum: Annotated[int, Field(ge=1, le=100)] = 5
    core_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    target_regret: Annotated[float, Field(ge=0, lt=1)] = 0.002
    existing: Annotated[tuple[Text, ...], _List] = ()
    directory: Text | None = None
    splits: Annotated[tuple[dict[str, _Given], ...], Field(strict=False, min_length=1)] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    within: Annotated[float, Field(ge=0, lt=1)] = 0.05
    accept_missing_ranks: bool | None = None
    learner: Text | dict[str, Any] | None = None


class ChainSection(StudySection):
    """Production in segments, for ``precice-lb chain`` alone; other commands take no notice of it.

    Attributes
    ----------
    windows
        Time windows of a segment.
    total
        Time windows of the whole chain, by default what ``max-time-windows`` or ``max-time`` of the configuration says.
    start
        First split, ``{ A = 4, B = 12 }``, as in ``runs.splits``; by default one in the middle of what is possible.
    carry
        Patterns of what a segment takes over from the one before, relative to the case: ``["fluid/restart-*.h5",
        "solid/out"]``; what a directory holds comes with it. By default all that lies in the case.
    """

    windows: Annotated[int, Field(ge=1)]
    total: Annotated[int, Field(ge=1)] | None = None
    start: dict[str, _Given] | None = None
    carry: Annotated[tuple[Text, ...], _List] = ()


class BoundsSection(StudySection):
    """The ranks and threads that a participant may have, and what it demands of the machine.

    Attributes
    ----------
    ranks
        A fixed number of ranks; or a list of those that are possible, ``[48, 96, 144]``, with threads where these
        differ, ``["1x4", "2x4"]``. By default, or as ``"free"``, the split says how many.
    threads
        Threads of each rank, each with a core of its own, or ``"free"``: the split says how many, of one rank unless
        ``ranks`` is a number. See "Threads".
    minimum_ranks
        Fewest ranks to try or to recommend, by default 1; cores of a participant with threads.
    maximum_ranks
        Most ranks to try or to recommend, by default the budget; cores of a participant with threads.
    """

    # What `Demands` maps from participants.
    multiple: Whole | None = None
    memory: Amount | None = None
    gpus_per_rank: Count | None = None
    kind: Text | None = None
    ranks_per_node: Whole | None = None
    ranks: _Ranks | None = None
    threads: _Free = 1
    minimum_ranks: Whole | None = None
    maximum_ranks: Whole | None = None

    @model_validator(mode="after")
    def _checked_layouts(self) -> BoundsSection:
        try:
            _ = self.layouts
        except InfeasibleError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def allow(self) -> tuple[int, ...] | None:
        """The only numbers of ranks that are possible, of one thread each; None where the split decides."""
        listed = self.ranks if isinstance(self.ranks, tuple) and self.threads == 1 else ()
        counts = tuple(count for count in listed if isinstance(count, int))
        return counts if counts and len(counts) == len(listed) else None

    @property
    def layouts(self) -> Layouts:
        """Ranks and threads that it may have."""
        threads = self.threads if isinstance(self.threads, int) else None
        if isinstance(self.ranks, tuple):
            if self.allow:
                return Layouts()
            pairs = (_pair(count, threads) for count in self.ranks)
            return Layouts(None, None, tuple(pairs))
        unsaid = 1 if self.ranks is None and threads is None else None
        return Layouts(self.ranks if isinstance(self.ranks, int) else unsaid, threads)


def _pair(count: int | str, threads: int | None) -> Layout:
    """Read an entry of a list of ranks, which have so many threads where it says none."""
    if isinstance(count, str):
        return layout_from(count)
    if threads is None:
        raise InfeasibleError(f'expected ranks x threads, such as "{count}x4", beside free threads, found {count}')
    return Layout(count, threads)


class VersionSection(BoundsSection):
    """A program that may be a participant, such as one on GPUs.

    Attributes
    ----------
    name
        Of the participant in the configuration.
    command
        What each rank runs; quotes as in a shell, but no shell takes part. A table from numbers of ranks to commands
        where they differ, with ``default`` for all others. See "Commands".
    options
        Options of the job for this participant alone, such as ``["--gres=gpu:4"]``: the job becomes a heterogeneous one
        with a component per participant.
    prepare
        Commands to run in its directory of the case's copy before a run, such as ``["decomposePar -force"]``. See
        "Preparing".
    environment
        Variables of its ranks alone, with the placeholders of "Preparing": ``{ CCX_NPROC_EQUATION_SOLVER = "{threads}"
        }``.
    """

    name: Annotated[str, BeforeValidator(lambda name: checked_name(name, "version"))]
    command: Text | dict[str, Text] = ""
    options: Options = ()
    prepare: Annotated[tuple[Text, ...], _List] = ()
    environment: Variables = Field(default_factory=dict)

    @field_validator("command", mode="before")
    @classmethod
    def _commands(cls, command: object) -> object:
        commands = command if isinstance(command, dict) else {OTHER_RANKS: command}
        if not all(isinstance(text, str) and text for text in commands.values()):
            raise ValueError(f"expected a text, or a table of texts by number of ranks, found {command!r}")
        if wrong := [key for key in commands if key != OTHER_RANKS and not re.fullmatch(r"[1-9][0-9]*", key)]:
            raise ValueError(f"expected numbers of ranks from 1 and {OTHER_RANKS!r} as keys, found {wrong[0]!r}")
        if OTHER_RANKS not in commands:
            raise ValueError(f"expected the command for all other numbers of ranks as {OTHER_RANKS!r}, found none")
        return command

    def commands(self) -> dict[str, str]:
        """Return the commands by number of ranks, or ``"default"``."""
        return {OTHER_RANKS: self.command} if isinstance(self.command, str) else dict(self.command)

    def command_at(self, ranks: int) -> str:
        """Return what each of so many ranks runs."""
        commands = self.commands()
        return commands.get(str(ranks), commands[OTHER_RANKS])


class ParticipantSection(VersionSection):
    """How one participant is prepared and started, and the ranks it may get.

    Attributes
    ----------
    directory
        Working directory, relative to the case, in which it must lie.
    collect
        In a chain, commands to run there after each segment, such as ``["reconstructPar -latestTime"]``.
    templates
        Files of its directory that end in ``.in``; the file without this ending gets the text with the placeholders
        filled.
    degrees_of_freedom
        Number of unknowns, for the comparison with the split proportional to them.
    versions
        Several programs in place of ``command``, of which one is to be the participant: ``[[participants.versions]]``
        with a ``name`` (letters, digits and ``_.-``) and a ``command`` each. Keys of the participant that say what it
        may have or needs may stand in a version, too, in place of the participant's; ``options``, ``prepare`` and
        ``environment`` are added to them. See [Versions of a participant](../docs/how-to/versions.md).
    """

    name: Annotated[Text, BeforeValidator(_printable)]
    directory: Text = "."
    collect: Annotated[tuple[Text, ...], _List] = ()
    templates: Annotated[tuple[_Template, ...], _List] = ()
    degrees_of_freedom: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    versions: Annotated[tuple[VersionSection, ...], _List, BeforeValidator(listed)] = ()

    @model_validator(mode="after")
    def _command_or_versions(self) -> ParticipantSection:
        if self.versions and self.command:
            raise ValueError("expected either a command, or versions that have one each, found both")
        return self

    @property
    def version(self) -> str:
        """The version that was chosen; empty where there are none, or none was."""
        return self.environment.get(VERSION_VARIABLE, "")
