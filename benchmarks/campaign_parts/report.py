"""The tables of simulated campaigns, as text and as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from regret_parts.statistics import describe, paired_ratio

from campaign_parts.simulate import Campaign, Result

__all__ = ["as_json", "as_text"]


def as_json(result: Result) -> dict[str, Any]:
    """Give all figures of one simulation as plain types; regrets in percent."""
    return {
        "participants": result.participants,
        "budget": result.budget,
        "noise": list(result.noise),
        "cases": len(result.families),
        "seed": result.seed,
        "contestants": {name: _figures(result, name) for name in result.campaigns},
        "by_family": {
            family: {
                name: describe(_regrets(campaigns)[np.array(result.families) == family])
                for name, campaigns in result.campaigns.items()
            }
            for family in dict.fromkeys(result.families)
        },
    }


def as_text(result: Result) -> str:
    """Give the figures as a table to read."""
    data = as_json(result)
    noise = " and ".join(f"{100 * each:g}" for each in result.noise)
    lines = [
        f"{result.participants} participants, P = {result.budget}, {noise} % noise, {data['cases']} cases, "
        f"seed {result.seed}",
        "  regret in %: mean [95 % interval] 95th percentile; over fixed; stated, true/stated; core-hours; runs; CPU s",
    ]
    for name, row in data["contestants"].items():
        regret, ratio = row["regret_percent"], row["over_fixed"]
        lines.append(
            f"  {name:11} {regret['mean']:.3f} [{regret['low']:.3f}, {regret['high']:.3f}] {regret['p95']:.2f};  "
            f"{ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}];  {row['stated_percent']:.3f}, "
            f"{row['true_over_stated']:.2f};  {row['core_hours']:.2f};  {row['runs']:.1f};  {row['cpu_seconds']:.2f}"
        )
    return "\n".join(lines)


def _figures(result: Result, name: str) -> dict[str, Any]:
    campaigns = result.campaigns[name]
    regrets = _regrets(campaigns)
    stated = float(np.mean([each.stated for each in campaigns]))
    return {
        "regret_percent": describe(regrets),
        "over_fixed": paired_ratio(regrets, _regrets(result.campaigns["fixed"])),
        "stated_percent": 100 * stated,
        "true_over_stated": float(regrets.mean()) / stated,
        "core_hours": float(np.mean([each.cost for each in campaigns])),
        "runs": float(np.mean([each.runs for each in campaigns])),
        "cpu_seconds": float(np.mean([each.seconds for each in campaigns])),
    }


def _regrets(campaigns: list[Campaign]) -> NDArray[np.float64]:
    return np.array([each.regret for each in campaigns])
