"""Hosts with their slots, out of a host file of MPICH or Open MPI, and whole hosts for every participant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from precice_lb.calibrate.plan import Task
from precice_lb.exceptions import CalibrationError
from precice_lb.plural import plural

__all__ = ["disjoint_hosts", "read_hosts"]

_HOST = re.compile(
    r"^(?P<name>[^\s:#]+)(?::(?P<count>\d+)|\s+slots\s*=\s*(?P<slots>\d+)(?:\s+max[-_]slots\s*=\s*\d+)?)?$"
)


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

    A host takes as many ranks as it has slots, or ``ranks_per_node`` if those are fewer.
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
            count = min(left, slots if limit is None else min(slots, limit))
            mine.append((name, count))
            left -= count
        given[task.participant] = mine
    return given
