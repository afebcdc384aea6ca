"""What `check` found, as blocks: numbers of every participant, and each finding with its remedy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from precice_lb.plural import plural
from precice_lb.report.blocks import Block, Paragraph, Table
from precice_lb.report.text import percent, seconds_unit

if TYPE_CHECKING:
    from precice_lb.check import CheckResult, FindingGroup


def check_blocks(result: CheckResult) -> list[Block]:
    """Say all of it."""
    return [*health_blocks(result), *finding_blocks(result)]


def health_blocks(
    result: CheckResult, runs: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None
) -> list[Block]:
    """Tabulate what the windows of each run say of its participants; names may be shortened."""
    runs, names = runs or {}, names or {}
    unit = seconds_unit(each.seconds for each in result.healths if math.isfinite(each.seconds))
    header = (
        "run", "participant", "ranks", "windows", "warm-up", f"median compute ({unit.symbol})", "iterations", "drift",
        "outliers", "spread", "error",
    )  # fmt: skip
    rows = tuple(
        (
            runs.get(each.run, each.run),
            names.get(each.participant, each.participant),
            each.ranks_text,
            str(each.windows),
            f"{each.warmup_found} ({each.warmup_left_out} left out)",
            unit.number(each.seconds) if math.isfinite(each.seconds) else "unknown",
            f"{each.iterations:.2f}" if math.isfinite(each.iterations) else "unknown",
            each.drift_text,
            str(each.outliers),
            _percent(each.deviation),
            _percent(each.error),
        )
        for each in result.healths
    )
    text = (
        "median compute: per time window, the median per coupling iteration after warm-up times the mean iterations; "
        "spread: of one window, error: of that median (standard deviations)"
    )
    table = Table("Recorded runs: what their windows say of them", header, rows, (0, 1))
    return [table, Paragraph(text), *_not_judged(result)]


def _not_judged(result: CheckResult) -> list[Block]:
    """Name participants that are too small to count."""
    judged = {each.participant for each in result.healths if not each.negligible}
    negligible = dict.fromkeys(
        f"{each.participant} in {each.run}" if each.participant in judged else each.participant
        for each in result.healths
        if each.negligible
    )
    return [Paragraph(f"not judged, with less than 1 % of the window: {', '.join(negligible)}")] if negligible else []


def finding_blocks(result: CheckResult) -> list[Block]:
    """Say each finding with its remedy, the same of several runs once."""
    if not result.findings:
        left_out = f"{plural(result.warmup, 'window')} of warm-up {'is' if result.warmup == 1 else 'are'} left out"
        return [Paragraph(f"nothing found that speaks against these runs; {left_out}")]
    return [Paragraph(_finding(group), "warning", _kind(group)) for group in result.groups]


def _kind(group: FindingGroup) -> str:
    same = all(each.size == group.worst.size for each in group.others)
    count = f" ({1 + len(group.others)} times{'' if same else ', this is the worst'})" if group.others else ""
    return f"{group.worst.kind}{count}"


def _finding(group: FindingGroup) -> str:
    worst = group.worst
    also = f" Also {group.also}." if group.others else ""
    return f"{worst.where}: {worst.text}. Remedy: {worst.remedy}.{also}"


def _percent(share: float) -> str:
    return percent(share) if math.isfinite(share) else "unknown"
