"""The cores of this machine that a run may use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from precice_lb.calibrate.plan import Task
from precice_lb.exceptions import CalibrationError
from precice_lb.plural import plural

__all__ = ["available_cores", "core_list", "disjoint_cores", "require_cores"]

_TOPOLOGY = Path("/sys/devices/system/cpu")


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


def require_cores(ranks: int, cores: int) -> None:
    """Refuse more ranks than cores."""
    if ranks > cores:
        raise CalibrationError(
            f"{plural(ranks, 'rank')} on {plural(cores, 'core')}: ranks that share a core measure each other; lower "
            "budget.ranks, calibrate on a larger machine, or set launcher.oversubscribe = true where the load is "
            "emulated"
        )


def disjoint_cores(tasks: Sequence[Task], cores: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Give every participant as many cores as it has ranks, one after the other."""
    require_cores(sum(task.ranks for task in tasks), len(cores))
    given: dict[str, tuple[int, ...]] = {}
    begin = 0
    for task in tasks:
        given[task.participant] = tuple(cores[begin : begin + task.ranks])
        begin += task.ranks
    return given


def core_list(cores: Sequence[int]) -> str:
    """Write processors as ``taskset -c`` reads them: 0,2,3."""
    return ",".join(map(str, cores))
