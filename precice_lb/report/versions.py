"""Versions of participants in texts, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from precice_lb.names import visible
from precice_lb.report.blocks import Table
from precice_lb.report.text import percent, seconds_unit

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation


def versioned(names: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """Write names of participants with their versions: Fluid (gpu)."""
    return {who: f"{name} ({visible(versions[who])})" if versions.get(who) else name for who, name in names.items()}


def versions_tables(recommendation: Recommendation, names: Mapping[str, str]) -> list[Table]:
    """Set every combination of versions with its best split beside the recommended one; nothing where there is one."""
    if len(recommendation.choices) < 2:
        return []
    unit = seconds_unit([recommendation.window_seconds])
    several = len(recommendation.versions) > 1
    takes = ["nodes"] if "nodes" in recommendation.used else []
    if any(_gpus(each.found) for each in recommendation.choices if each.recommendation is not None):
        takes.append("gpus")
    rows = []
    for each in recommendation.choices:
        said = ", ".join(
            f"{names[who]} {visible(v) or 'unnamed'}" if several else visible(v) or "unnamed"
            for who, v in each.versions.items()
        )
        found = each.recommendation
        if found is None:
            rows.append((said, f"none: {visible(each.problem)}", *[""] * (len(takes) + 4)))
            continue
        low, high = found.interval
        rows.append(
            (
                said,
                " + ".join(found.layouts[n].text(c) if n in found.layouts else str(c) for n, c in found.split.items()),
                *(_nodes(found.used) if key == "nodes" else str(_gpus(found) or "") for key in takes),
                unit.number(found.window_seconds),
                f"{unit.number(low)}–{unit.number(high)}",
                "" if each.versions == recommendation.versions else percent(each.gain),
                "" if each.versions == recommendation.versions else percent(each.probability, 0),
            )
        )
    who = "versions" if several else f"{names[next(iter(recommendation.versions))]}"
    interval = f"{percent(recommendation.level, 0)} interval"
    header = (
        who,
        "cores" if recommendation.layouts else "ranks",
        *takes,
        f"window ({unit.symbol})",
        interval,
        "longer",
        "slower with",
    )
    return [Table("Versions, each with its own best split, the recommended one first", header, tuple(rows), (0, 1))]


def _gpus(found: Recommendation) -> int:
    """Count the GPUs that ranks use; nodes of their own may have more."""
    machine, total = found.limits.constraints, 0
    for who, count in found.split.items():
        ranks = found.layouts[who].of(count).ranks if who in found.layouts else count
        total += ranks * int(machine.of("gpus_per_rank", who) or 0)
    return total


def _nodes(used: Mapping[str, int]) -> str:
    """Say how many nodes, of which kinds where there are several."""
    kinds = {name.removesuffix(" nodes"): count for name, count in used.items() if name.endswith(" nodes") and count}
    if kinds:
        return " + ".join(f"{count} {name}" for name, count in kinds.items())
    return str(used.get("nodes", ""))


def other_versions(recommendation: Recommendation) -> Iterator[tuple[str, str, Recommendation]]:
    """Give each version of a participant that is not recommended, with the best recommendation that has it."""
    seen = set(recommendation.versions.items())
    for each in recommendation.choices:
        for who, version in each.versions.items() if each.recommendation is not None else ():
            if (who, version) not in seen:
                seen.add((who, version))
                yield who, version, each.found
