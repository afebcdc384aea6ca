"""Where ranks and their threads may run without a batch system: cores of this machine, and hosts of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from precice_lb.calibrate.plan import Task
from precice_lb.exceptions import CalibrationError
from precice_lb.plural import plural

_TOPOLOGY = Path("/sys/devices/system/cpu")
_HOST = re.compile(
    r"^(?P<name>[^\s:#]+)(?::(?P<count>\d+)|\s+slots\s*=\s*(?P<slots>\d+)(?:\s+max[-_]slots\s*=\s*\d+)?)?$"
)


def available_cores(topology: Path = _TOPOLOGY, allowed: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the processors, one per physical core, that this process may run on, sorted by package and core.

    Hardware threads of one core share its units: a rank on the second one would slow down the first.
    """
    processors = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    cores: dict[tuple[int, int], int] = {}
    for processor in processors:
        place = topology / f"cpu{processor}" / "topology"
        try:
            key = tuple(int((place / name).read_text()) for name in ("physical_package_id", "core_id"))
        except (OSError, ValueError):
            key = (0, -1 - processor)  # not described: taken for a core of its own
        cores.setdefault((key[0], key[1]), processor)
    return tuple(processor for _, processor in sorted(cores.items(), key=lambda item: (item[0][0], item[1])))


def require_cores(ranks: int, cores: int, unit: str = "rank") -> None:
    """Refuse more ranks, or cores for their threads, than there are cores."""
    if ranks > cores:
        wanted = plural(ranks, "rank") if unit == "rank" else f"ranks and threads for {plural(ranks, unit)}"
        raise CalibrationError(
            f"{wanted} on {plural(cores, 'core')}: ranks that share a core measure each other; lower "
            f"budget.{unit}s, calibrate on a larger machine, or set launcher.oversubscribe = true where the load is "
            "emulated"
        )


def disjoint_cores(tasks: Sequence[Task], cores: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Give every participant as many cores as it has ranks and threads, one after the other."""
    unit = "core" if any(task.threads > 1 for task in tasks) else "rank"
    require_cores(sum(task.cores for task in tasks), len(cores), unit)
    given: dict[str, tuple[int, ...]] = {}
    begin = 0
    for task in tasks:
        given[task.participant] = tuple(cores[begin : begin + task.cores])
        begin += task.cores
    return given


def read_hosts(path: Path) -> tuple[tuple[str, int], ...]:
    """Read ``name:4`` (MPICH) and ``name slots=4`` (Open MPI) lines; a name alone has one slot."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CalibrationError(f"launcher.hostfile: {path} cannot be read: {error}") from error
    hosts = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not (content := line.partition("#")[0].strip()):
            continue
        match = _HOST.match(content)
        if match is None:
            raise CalibrationError(
                f"launcher.hostfile: {path}, line {number}: expected 'name', 'name:4' or 'name slots=4', "
                f"found {content!r}"
            )
        hosts.append((match["name"], int(match["count"] or match["slots"] or 1)))
    if not hosts:
        raise CalibrationError(f"launcher.hostfile: {path} names no host")
    return tuple(hosts)


def disjoint_hosts(tasks: Sequence[Task], hosts: Sequence[tuple[str, int]]) -> dict[str, list[tuple[str, int]]]:
    """Give every participant hosts of its own, in the file's order: (host, ranks on it).

    A host takes as many ranks as it has slots for their threads, or ``ranks_per_node`` if those are fewer.
    """
    rest = list(hosts)
    given: dict[str, list[tuple[str, int]]] = {}
    for task in tasks:
        limit = task.ranks_per_node
        left = task.ranks
        mine: list[tuple[str, int]] = []
        while left > 0:
            if not rest:
                raise CalibrationError(
                    f"the {len(hosts)} hosts of launcher.hostfile are too few: {task.participant} lacks {left} of its "
                    f"{plural(task.ranks, 'rank')}, since every participant gets hosts of its own"
                )
            name, slots = rest.pop(0)
            room = slots // task.threads
            if count := min(left, room if limit is None else min(room, limit)):
                mine.append((name, count))
            left -= count
        given[task.participant] = mine
    return given
