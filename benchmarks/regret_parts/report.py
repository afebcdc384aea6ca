"""The tables of a simulation, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regret_parts.decide import LEVEL, Score
from regret_parts.simulate import Outcome, Result
from regret_parts.statistics import describe, paired_ratio

__all__ = ["as_json", "as_text", "budget_figures", "row_text"]

POOLED = "pooled"


def as_json(result: Result, reference: str) -> dict[str, Any]:
    """Give all figures of a simulation as plain types; regrets in percent."""
    groups = _groups(result)
    reference_known = reference in result.contestants
    return {
        "points": result.points,
        "noise": result.noise,
        "pairs_per_family": {name: len(each) for name, each in result.outcomes.items()},
        "seed": result.seed,
        "reference": reference if reference_known else None,
        "regret_percent": {
            group: {
                name: {
                    str(budget): describe(_regrets(outcomes, name)[:, at])
                    | (
                        {
                            "over_reference": paired_ratio(
                                _regrets(outcomes, name)[:, at], _regrets(outcomes, reference)[:, at]
                            )
                        }
                        if reference_known
                        else {}
                    )
                    for at, budget in enumerate(result.budgets)
                }
                for name in result.contestants
            }
            for group, outcomes in groups.items()
        },
        "coverage_percent": {
            group: {name: covered for name in result.contestants if (covered := _coverage(result, outcomes, name))}
            for group, outcomes in groups.items()
        },
        "refused": {
            name: _by_budget(result, np.sum([outcome[name].refused for outcome in groups[POOLED]], axis=0))
            for name in result.contestants
        },
        "cpu_milliseconds_per_pair": {
            name: 1e3 * float(np.mean([outcome[name].seconds for outcome in groups[POOLED]]))
            for name in result.contestants
        },
    }


def as_text(result: Result, reference: str) -> str:
    """Give the figures as tables to read."""
    data = as_json(result, reference)
    count = next(iter(data["pairs_per_family"].values()))
    lines = [
        f"{result.points} points, {100 * result.noise:g} % noise, {count} pairs per family, seed {result.seed}",
        "regret in %: mean [95 % interval of the mean] 95th percentile"
        + (f" (mean over {reference}'s)" if data["reference"] else ""),
    ]
    width = max(len(name) for name in result.contestants) + 2
    for group, table in data["regret_percent"].items():
        lines.append(f"  {group}")
        lines.append("    " + "".ljust(width) + "".join(f"P = {budget}".ljust(38) for budget in result.budgets))
        for name, row in table.items():
            cells = [_cell(row[str(budget)]).ljust(38) for budget in result.budgets]
            refused = sum(data["refused"][name].values()) if group == POOLED else 0
            note = f"refused {refused} decisions" if refused else ""
            lines.append("    " + name.ljust(width) + "".join(cells) + note)
    lines.append(f"coverage of {100 * LEVEL:.0f} % intervals of the recommended split's window time in %")
    for group, covered in data["coverage_percent"].items():
        for name, row in covered.items():
            values = "  ".join(f"{row[str(budget)]:5.1f}" for budget in result.budgets)
            lines.append(f"    {group.ljust(14)}{name.ljust(width)}{values}")
    times = ", ".join(f"{name} {ms:.0f}" for name, ms in data["cpu_milliseconds_per_pair"].items() if ms >= 0.5)
    lines.append(f"CPU milliseconds per pair: {times}")
    return "\n".join(lines) + "\n"


def budget_figures(scores: Sequence[Score]) -> dict[str, Any]:
    """Give a contestant's figures over pairs: regrets, coverage and refusals by budget, and time per pair."""
    regrets, covered, refused = (np.array([row[field] for row in scores], dtype=float) for field in range(3))
    # Nobody covers anything without an interval.
    stated = ~np.isnan(covered)
    with np.errstate(invalid="ignore"):
        shares = np.nansum(covered, axis=0) / stated.sum(axis=0)
    return {
        "regret_percent": [describe(column) for column in regrets.T],
        "coverage_percent": (100 * shares).tolist(),
        "refused": refused.sum(axis=0).astype(int).tolist(),
        "cpu_milliseconds": 1e3 * float(np.mean([row.seconds for row in scores])),
    }


def row_text(name: str, row: dict[str, Any], last: str = "p95") -> str:
    """Give such figures as one line: mean regret, its interval and another figure of `describe`, by budget."""
    regrets = "  ".join(
        f"{regret['mean']:6.2f} [{regret['low']:.2f}, {regret['high']:.2f}] / {regret[last]:.1f}"
        for regret in row["regret_percent"]
    )
    covered = " ".join("   " if np.isnan(share) else f"{share:3.0f}" for share in row["coverage_percent"])
    refused = f"refused {sum(row['refused'])}" if any(row["refused"]) else ""
    return f"{name:17} {regrets}  covered {covered}  {row['cpu_milliseconds']:.0f} ms  {refused}"


def _cell(figures: dict[str, Any]) -> str:
    text = f"{figures['mean']:.2f} [{figures['low']:.2f}, {figures['high']:.2f}] {figures['p95']:.1f}"
    return text + (f" ({figures['over_reference']['ratio']:.2f})" if "over_reference" in figures else "")


def _groups(result: Result) -> dict[str, list[Outcome]]:
    return {**result.outcomes, POOLED: [outcome for each in result.outcomes.values() for outcome in each]}


def _regrets(outcomes: list[Outcome], name: str) -> NDArray[np.float64]:
    return np.array([outcome[name].regrets for outcome in outcomes])


def _coverage(result: Result, outcomes: list[Outcome], name: str) -> dict[str, float]:
    """Percent of true window times inside their intervals, by budget; empty for a contestant without intervals."""
    covered = np.array([outcome[name].covered for outcome in outcomes])
    if np.isnan(covered).all():
        return {}
    return _by_budget(result, 100 * np.nanmean(covered, axis=0))


def _by_budget(result: Result, values: NDArray[Any]) -> dict[str, Any]:
    return dict(zip(map(str, result.budgets), values.tolist(), strict=True))
