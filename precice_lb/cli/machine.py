"""Options that say what a machine has and demands, in the words of `precice_lb.recommend.Machine`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.cli.options import by_participant
from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.split import SharedCores

__all__ = ["Machine"]

_PLAIN = ("cores", "nodes", "cores_per_node", "gpus_per_node", "gpus")
# Kind of the numbers by participant, and whether one number may stand for all.
_BY_PARTICIPANT = {
    "threads": (int, True), "gpus_per_rank": (int, False), "multiple": (int, True), "fixed": (int, False),
    "memory": (float, False), "memory_per_rank": (float, True),
    "elements": (float, False), "elements_per_rank": (float, True),
}  # fmt: skip


@Parameter(name="*", group="Machine")
@dataclass
class Machine:
    """What a machine has and demands.

    Parameters
    ----------
    cores
        Total number of cores to split, instead of ranks.
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
    """

    cores: int | None = None
    nodes: int | None = None
    cores_per_node: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    whole_nodes: Annotated[bool, Parameter(negative=())] = False
    threads: list[str] | None = None
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

    @property
    def has_budget(self) -> bool:
        """Whether it says how much there is to split."""
        return self.cores is not None or self.nodes is not None

    def words(self, names: Sequence[str]) -> dict[str, Any]:
        """Read the texts for these participants: what is said, as words of `precice_lb.recommend.Machine`."""
        words: dict[str, Any] = {key: getattr(self, key) for key in _PLAIN}
        words["whole_nodes"] = self.whole_nodes or None
        for key, (kind, for_all) in _BY_PARTICIPANT.items():
            if texts := getattr(self, key):
                words[key] = by_participant(texts, names, f"--{key.replace('_', '-')}", kind, for_all=for_all)
        words["allow"] = _allowed(self.allow, names) if self.allow else None
        words["shared"] = _shared(self.shared, names, self.shared_overhead) if self.shared else None
        return {key: value for key, value in words.items() if value is not None}


def _allowed(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[int]]:
    allowed: dict[str, list[int]] = {}
    for text in texts:
        try:
            if text.lstrip().startswith("{"):
                lists = {str(name): list(counts) for name, counts in json.loads(text).items()}
            else:
                name, _, after = text.rpartition("=")
                lists = {name.strip(): after.split(",")}
            for name, counts in lists.items():
                allowed[name] = [int(count) for count in counts]
                if min(allowed[name], default=0) < 1:
                    raise ValueError(name)
        except (ValueError, TypeError):
            raise DataError(
                f"--allow: expected participant=rank counts, such as {names[0]}=48,96,144, found {text!r}"
            ) from None
    for name in allowed:
        if name not in names:
            raise DataError(f"--allow: expected one of the participants {', '.join(names)}, found {name!r}")
    return allowed


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
