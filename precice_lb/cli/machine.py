"""Options that say what a machine has and demands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.cli.options import by_participant
from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.split import Constraints, SharedCores

__all__ = ["Machine", "machine_constraints"]

_ONCE = Parameter(name="*", group="Machine")


@_ONCE
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
    share
        Participants that never work at the same time and take turns on the same cores: Fluid/Solid, or ICE+LND/ATM.
    share_overhead
        By what share compute seconds rise because of that: 0.05 is 5 %.
    """

    cores: int | None = None
    nodes: int | None = None
    cores_per_node: int | None = None
    gpus_per_node: int | None = None
    whole_nodes: Annotated[bool, Parameter(negative=())] = False
    threads: list[str] | None = None
    gpus_per_rank: list[str] | None = None
    multiple: list[str] | None = None
    allow: list[str] | None = None
    fixed: list[str] | None = None
    share: list[str] | None = None
    share_overhead: float = 0.0


def machine_constraints(
    ranks: int | None, machine: Machine | None, names: Sequence[str]
) -> tuple[int, Constraints | None]:
    """Make a budget and its constraints of the options."""
    from precice_lb.recommend import machine_of

    given = machine or Machine()

    def read(option: str, texts: list[str] | None) -> Any:
        return by_participant(texts, names, option, int) if texts else None

    return machine_of(
        ranks,
        given.cores,
        given.nodes,
        cores_per_node=given.cores_per_node,
        gpus_per_node=given.gpus_per_node,
        whole_nodes=given.whole_nodes or None,
        threads=_for_all("--threads", given.threads, names),
        gpus_per_rank=read("--gpus-per-rank", given.gpus_per_rank),
        multiples=_for_all("--multiple", given.multiple, names),
        allowed=_allowed(given.allow, names) if given.allow else None,
        fixed=read("--fixed", given.fixed),
        shared=_shared(given.share, names, given.share_overhead) if given.share else None,
    )


def _for_all(option: str, texts: list[str] | None, names: Sequence[str]) -> Any:
    if not texts:
        return None
    if len(texts) == 1 and texts[0].strip().isdecimal():
        return by_participant([f"{name}={texts[0]}" for name in names[:1]], names, option, int)[names[0]]
    return by_participant(texts, names, option, int)


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
                f"--share: expected two turns or more of participants out of {', '.join(names)}, such as "
                f"{'/'.join(names[:2])}, found {text!r}"
            )
        groups.append(SharedCores(turns, overhead))
    return groups
