"""Where the ranks of a run were: hosts and the cores that they could run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from precice_lb.store.reader import RankStore

__all__ = ["Places", "crowding", "places_of"]

Places: TypeAlias = Mapping[str, tuple[int, frozenset[int]]]
"""By host, how many ranks were there, and the cores that any of them could run on."""


def places_of(group: Sequence[RankStore]) -> Places:
    """Count the ranks of a participant by host; nothing where one does not say its cores, or emulates its load."""
    ranks: Counter[str] = Counter()
    cores: dict[str, frozenset[int]] = {}
    for store in group:
        data = store.metadata
        if "cpus" not in data or "hostname" not in data or data.get("emulated_load"):
            return {}
        host = str(data["hostname"])
        ranks[host] += 1
        cores[host] = cores.get(host, frozenset()) | _cores(str(data["cpus"]))
    return {host: (count, cores[host]) for host, count in ranks.items()}


def crowding(participants: Mapping[str, Places]) -> str:
    """Say where more ranks ran than there were cores for them; empty where nobody shares one, or not all is known."""
    if not all(participants.values()):
        return ""
    hosts = sorted({host for places in participants.values() for host in places})
    found = []
    for host in hosts:
        there = {name: places[host] for name, places in participants.items() if host in places}
        ranks = sum(count for count, _ in there.values())
        cores = frozenset[int]().union(*(cpus for _, cpus in there.values()))
        if ranks > len(cores):
            found.append(
                f"{ranks} ranks of {' and '.join(there)} shared {len(cores)} {'core' if len(cores) == 1 else 'cores'} "
                f"of {host}"
            )
    return "; ".join(found)


@lru_cache(maxsize=1024)
def _cores(text: str) -> frozenset[int]:
    """Read a list such as ``0-3,8``."""
    ranges = (part.partition("-") for part in text.split(","))
    return frozenset(core for first, _, last in ranges for core in range(int(first), int(last or first) + 1))
