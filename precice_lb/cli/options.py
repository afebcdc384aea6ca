"""Options of several subcommands: what a machine demands, and values that are more than a number or a path."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.plugins import DEFAULT_LEARNER, LEARNERS, close_match

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.recommend.plan import Prefer
    from precice_lb.schedule import Schedule
    from precice_lb.split import NodeKind, SharedCores

Stores = Annotated[Path, Parameter(help="Directories of stores, searched with everything below them.")]
"""Where recorded runs are."""
Warmup = Annotated[
    int | None,
    Parameter(
        help="Time windows to leave out of each run; by default what the run says, else 1, or more where more are "
        "unlike those that follow."
    ),
]
"""How much of a run is not learned from."""

LEARNER_HELP = f"{DEFAULT_LEARNER} (default), {', '.join(name for name in LEARNERS if name != DEFAULT_LEARNER)}"
"""Every learner by name, for the help of options."""


def required(sources: Sequence[Path], what: str) -> Sequence[Path]:
    """Return the sources, or refuse if there is none of ``what``."""
    if not sources:
        raise DataError(f"expected at least one {what}, found none; precice-lb --help names the commands")
    return sources


def coupling_from(measurements: Measurements, coupling: str | None = None, runs: Sequence[CoupledRun] = ()) -> Schedule:
    """Take the coupling from the option (of recorded ``runs``), else from their configuration, else parallel."""
    from precice_lb.precice_xml import parse_configuration, read_configuration
    from precice_lb.recommend import traced_schedule
    from precice_lb.schedule import Schedule

    names = list(measurements.samples)
    if coupling == "serial":
        return Schedule.serial(names)
    if coupling == "parallel" or (coupling is None and measurements.configuration is None):
        return Schedule.parallel(names)
    if coupling == "traces":
        if not runs:
            raise DataError("--coupling traces: expected recorded runs, found tables alone; give directories of stores")
        return traced_schedule(runs)
    if coupling is None:
        configuration = parse_configuration(measurements.configuration or "")
    elif Path(coupling).exists():
        configuration = read_configuration(Path(coupling))
    else:
        raise DataError(
            f"--coupling: expected parallel, serial, traces or a precice-config.xml, found no file {coupling}"
        )
    return Schedule.from_config(configuration, measurements.iterations, measurements.overhead)


def share(value: float, option: str) -> float:
    """Check a share; one that was meant as percent is refused."""
    if not 0 <= value < 1:
        found = f"{value:g}; {value:g} % is {value / 100:g}" if value >= 1 else f"{value:g}"
        raise DataError(f"{option}: expected a share between 0 and 1, such as 0.05 for 5 %, found {found}")
    return value


def preference(text: str) -> Prefer:
    """Read ``time``, ``cost`` or the weight of time between 0 and 1."""
    words: dict[str, Prefer] = {"time": "time", "cost": "cost"}
    if text in words:
        return words[text]
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 1:
        raise DataError(f"--prefer: expected time, cost or the weight of time from 0 to 1, found {text!r}")
    return weight


def by_participant(
    texts: Sequence[str], names: Sequence[str], option: str, kind: Callable[[Any], float], *, for_all: bool = False
) -> Any:
    """Read ``Inner=2,Outer=4`` or a JSON object, given once or several times; ``for_all`` allows one number alone."""
    if for_all and len(texts) == 1 and texts[0].strip()[:1].isdigit():
        return by_participant([f"{names[0]}={texts[0]}"], names, option, kind)[names[0]]

    def number(name: str, value: Any) -> float:
        found = kind(value)
        if not (math.isfinite(found) and found > 0):
            raise ValueError(value)
        return found

    wanted = "a whole number" if kind is int else "a number"
    expected = f"participant={wanted} above 0 for each participant, such as {names[0]}=2"
    return named_values(texts, option, expected, number, participants=names)


def parameter_values(texts: Sequence[str]) -> dict[str, float | str | None]:
    """Read ``level=8,mesh=fine`` or a JSON object, given once or several times; ``any`` is None."""

    def read(name: str, value: Any) -> float | str | None:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError(name)
        return None if value == "any" else _number_or_text(value)

    remedy = "; a JSON object where a name or value has a comma"
    return named_values(texts, "--parameter", "name=value, such as level=8, or name=any", read, remedy=remedy)


def learner_values(texts: Sequence[str]) -> dict[str, Any]:
    """Read ``ridge=0.1,constant=false`` or a JSON object, given once or several times."""

    def read(name: str, value: Any) -> Any:
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                return json.loads(value)
        return value

    return named_values(texts, "--learner-parameters", "name=value, such as ridge=0.1", read)


def named_values(
    texts: Sequence[str],
    option: str,
    expected: str,
    read: Callable[[str, Any], Any],
    *,
    remedy: str = "",
    participants: Sequence[str] | None = None,
    single: bool = False,
) -> dict[str, Any]:
    """Read ``a=1,b=2`` (``single``: one pair) or a JSON object, given once or several times, each value by ``read``."""
    values: dict[str, Any] = {}
    for text in texts:
        try:
            if text.lstrip().startswith("{"):
                pairs = [(str(name), value) for name, value in json.loads(text).items()]
            else:
                parts = [text] if single else text.split(",")
                pairs = [(name, value.strip()) for name, _, value in (part.rpartition("=") for part in parts)]
            for name, value in pairs:
                if not name.strip() or value == "":
                    raise ValueError(name)
                if name.strip() in values:
                    raise DataError(f"{option}: expected each name once, found {name.strip()!r} twice")
                values[name.strip()] = read(name.strip(), value)
        except InfeasibleError as error:
            raise DataError(f"{option}: {error}") from error
        except (ValueError, TypeError, AttributeError):
            raise DataError(f"{option}: expected {expected}, found {text!r}{remedy}") from None
    unknown = [] if participants is None else [name for name in values if name not in participants]
    if unknown:
        known = list(participants or ())
        raise DataError(
            f"{option}: expected one of the participants {', '.join(known)}, found {unknown[0]!r}"
            f"{close_match(unknown[0], known)}"
        )
    return values


def _number_or_text(value: str | float) -> float | str:
    try:
        return float(value)
    except ValueError:
        return str(value)


_PLAIN = ("cores", "nodes", "cores_per_node", "gpus_per_node", "gpus")
# Kind of the numbers by participant, and whether one number may stand for all.
_BY_PARTICIPANT = {
    "threads": (int, True), "gpus_per_rank": (int, False), "multiple": (int, True), "fixed": (int, False),
    "memory": (float, False), "memory_per_rank": (float, True),
    "elements": (float, False), "elements_per_rank": (float, True), "ranks_per_node": (int, False),
}  # fmt: skip


@Parameter(name="*", group="Machine")
@dataclass
class Machine:
    """What a machine has and demands.

    Parameters
    ----------
    cores
        Total number of cores to split, instead of ranks. Wherever a participant is named below, Fluid:gpu speaks of one
        version of it.
    nodes
        Number of nodes to split, instead of ranks.
    cores_per_node
        Cores of a node.
    gpus_per_node
        GPUs of a node.
    gpus
        GPUs in all, where nodes are not counted.
    whole_nodes
        Give every participant nodes of its own.
    threads
        Cores per rank: Fluid=2, or one number for all.
    layouts
        Ranks and threads of a participant that is split by cores: Solid=1xfree, Solid=freex4, or all that are possible,
        Solid=1x4,2x4; once per participant. By default those that were measured.
    gpus_per_rank
        GPUs that each rank takes: Fluid=1.
    multiple
        Ranks come in multiples of this: Fluid=4, or one number for all.
    allow
        The only rank counts that are possible: Fluid=48,96,144; once per participant.
    fixed
        Ranks that are given: Solid=12.
    memory
        Bytes that a participant needs in all: Fluid=2e11.
    memory_per_rank
        Bytes that one of its ranks may use: Fluid=4e9, or one number for all.
    elements
        Elements of a participant's mesh: Fluid=1e7.
    elements_per_rank
        The most that one of its ranks may have: Fluid=5e5, or one number for all.
    shared
        Participants that never work at the same time and take turns on the same cores: Fluid/Solid, or ICE+LND/ATM.
    shared_overhead
        By what share compute seconds rise because of that: 0.05 is 5 %.
    kinds
        Nodes of several kinds, each with its number, cores and GPUs per node: cpu=6x36,gpu=2x36x8, in place of --nodes.
    kind
        On which kind a participant, or a version of it, runs: Fluid:gpu=gpu; by default on the first.
    ranks_per_node
        Ranks on each node of a participant, where these are fewer than fit: Fluid:gpu=8.
    """

    cores: int | None = None
    nodes: int | None = None
    cores_per_node: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    whole_nodes: Annotated[bool, Parameter(negative=())] = False
    threads: list[str] | None = None
    layouts: list[str] | None = None
    gpus_per_rank: list[str] | None = None
    multiple: list[str] | None = None
    allow: list[str] | None = None
    fixed: list[str] | None = None
    memory: list[str] | None = None
    memory_per_rank: list[str] | None = None
    elements: list[str] | None = None
    elements_per_rank: list[str] | None = None
    shared: list[str] | None = None
    shared_overhead: float = 0.0
    kinds: list[str] | None = None
    kind: list[str] | None = None
    ranks_per_node: list[str] | None = None

    @property
    def has_budget(self) -> bool:
        """Whether it says how much there is to split."""
        return self.cores is not None or self.nodes is not None or bool(self.kinds)

    def words(self, names: Sequence[str]) -> dict[str, Any]:
        """Read the texts for these participants: what is said, as words of `precice_lb.recommend.Machine`."""
        words: dict[str, Any] = {key: getattr(self, key) for key in _PLAIN}
        words["whole_nodes"] = self.whole_nodes or None
        for key, (kind, for_all) in _BY_PARTICIPANT.items():
            if texts := getattr(self, key):
                words[key] = by_participant(texts, names, f"--{key.replace('_', '-')}", kind, for_all=for_all)
        if self.layouts:
            from precice_lb.cli.recommend import layouts_by_participant

            words["layouts"] = layouts_by_participant(self.layouts, names)
        words["allow"] = _allowed(self.allow, names) if self.allow else None
        words["shared"] = _shared(self.shared, names, self.shared_overhead) if self.shared else None
        words["kinds"] = _kinds(self.kinds) if self.kinds else None
        if self.kind:
            expected = f"participant=kind of nodes, such as {names[-1]}=gpu"
            words["kind"] = named_values(self.kind, "--kind", expected, lambda _, kind: str(kind), participants=names)
        return {key: value for key, value in words.items() if value is not None}


def _kinds(texts: Sequence[str]) -> list[NodeKind]:
    from precice_lb.split import NodeKind

    def read(name: str, value: Any) -> NodeKind:
        nodes, cores, *gpus = (int(part) for part in str(value).split("x"))
        return NodeKind(name, nodes, cores, *gpus)

    expected = "kind=nodes x cores per node (x GPUs per node), such as cpu=6x36,gpu=2x36x8"
    return list(named_values(texts, "--kinds", expected, read).values())


def _allowed(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[int]]:
    def read(name: str, value: Any) -> list[int]:
        counts = [int(count) for count in (value.split(",") if isinstance(value, str) else value)]
        if min(counts, default=0) < 1:
            raise ValueError(name)
        return counts

    expected = f"participant=rank counts, such as {names[0]}=48,96,144"
    return named_values(texts, "--allow", expected, read, participants=names, single=True)


def _shared(texts: Sequence[str], names: Sequence[str], overhead: float) -> list[SharedCores]:
    from precice_lb.split import SharedCores

    groups = []
    for text in texts:
        turns = [[name.strip() for name in turn.split("+")] for turn in text.split("/")]
        unknown = [name for turn in turns for name in turn if name not in names]
        if unknown or len(turns) < 2:
            raise DataError(
                f"--shared: expected two turns or more of participants out of {', '.join(names)}, such as "
                f"{'/'.join(names[:2])}, found {text!r}"
            )
        groups.append(SharedCores(turns, overhead))
    return groups
