"""What a campaign on a real case is worth: every split is measured, and the recommended one stands beside the best.

    python benchmarks/real_campaign.py configs/partitioned-heat.toml --directory real-campaign

Takes any study whose load is real. First a campaign of at most six runs recommends a split, as `precice-lb calibrate`
does; then all splits of the budget and of smaller totals are measured in as many runs each as `--repeats` says. Regret
is the measured window of the recommended split over that of the best one, minus 1; windows of implicit couplings are of
as many iterations as the campaign's had in the mean. Core-hours are those of all ranks of a run, from its start to its
end. What was measured before is not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.campaign import CampaignResult, Study, load_campaign, read_study, run_campaign
from precice_lb.campaign.state import core_hours_of
from precice_lb.cli.flow import run_and_recommend

RUNS = 6
# Of more the exhaustive search would take longer than anyone waits.
MOST_SPLITS = 100

Split = tuple[int, ...]


@dataclass(frozen=True)
class Truth:
    """Measured seconds by split, a value per run: of time windows, and of each participant's own work."""

    windows: dict[Split, list[float]]
    compute: dict[str, dict[int, list[float]]]
    core_hours: float

    @property
    def best(self) -> Split:
        """The split with the shortest mean window."""
        return min(self.windows, key=self.window)

    def window(self, split: Split) -> float:
        """Mean seconds per time window."""
        return float(np.mean(self.windows[split]))

    def regret(self, split: Split) -> float:
        """Window over that of the best split, minus 1."""
        return self.window(split) / self.window(self.best) - 1


def all_splits(study: Study, step: int) -> list[dict[str, int]]:
    """Every split within the study's bounds whose ranks are the budget, or the budget less a multiple of `step`."""
    counts = [range(least, most + 1) for least, most in study.bounds.values()]
    totals = range(study.budget, 0, -step)
    found = [dict(zip(study.names, each, strict=True)) for each in itertools.product(*counts) if sum(each) in totals]
    if len(found) > MOST_SPLITS:
        raise SystemExit(f"expected at most {MOST_SPLITS} splits to measure, found {len(found)}; give a larger --step")
    return found


def measure(study: Study, splits: Sequence[Mapping[str, int]], directory: Path, repeats: int) -> list[CampaignResult]:
    """Measure splits; repeats are apart in time."""
    exhaustive = {"splits": tuple(map(dict, splits)), "maximum": len(splits)}
    study = study.model_copy(update={"runs": study.runs.model_copy(update=exhaustive)})
    return [run_campaign(study, directory / f"all-{number}") for number in range(1, repeats + 1)]


def truth_of(results: Sequence[CampaignResult], iterations: Mapping[str, float]) -> Truth:
    """Read what exhaustive campaigns have measured, in windows of as many iterations as the recommendation's."""
    windows: dict[Split, list[float]] = {}
    compute: dict[str, dict[int, list[float]]] = {}
    for result in results:
        table = result.measurements()
        of_window = {name: iterations.get(name, 1.0) / table.iterations.get(name, 1.0) for name in table.samples}
        for run in table.runs:
            walls = [seconds * of_window[name] for name, seconds in run.window_seconds.items()]
            windows.setdefault(tuple(run.split.values()), []).append(max(walls))
            for name, seconds in run.compute_seconds.items():
                compute.setdefault(name, {}).setdefault(run.split[name], []).append(seconds * of_window[name])
    return Truth(windows, compute, sum(core_hours_of(result.runs) for result in results))


def as_text(truth: Truth, recommendation: Mapping[str, Any], campaign_hours: float) -> str:
    """Write the tables: how each participant scales, what splits are worth, what finding them took."""
    rows = ["| participant | ranks: seconds per time window, median |", "|---|---|"]
    for name, by_ranks in truth.compute.items():
        medians = ", ".join(f"{ranks}: {np.median(by_ranks[ranks]):.3g}" for ranks in sorted(by_ranks))
        rows.append(f"| {name} | {medians} |")
    rows += ["", f"| split ({' + '.join(truth.compute)}) | | measured window | over the best | predicted |"]
    rows.append("|---|---|---|---|---|")
    others = {kind: (each["split"], each["window_seconds"]) for kind, each in recommendation["alternatives"].items()}
    shown = {"recommended": (recommendation["split"], recommendation["window_seconds"]), **others}
    rows.append(_row(truth, truth.best, "best of all measured", math.nan))
    for kind, (split, predicted) in shown.items():
        rows.append(_row(truth, tuple(split[name] for name in truth.compute), kind, predicted))
    rows += [
        "",
        f"{len(truth.windows)} splits measured with {truth.core_hours:.3g} core-hours, "
        f"campaign {campaign_hours:.3g} core-hours ({campaign_hours / truth.core_hours:.1%}); "
        f"runs of one split differ by {_spread(truth):.1%} (median)",
    ]
    return "\n".join(rows)


def _row(truth: Truth, split: Split, kind: str, predicted: float) -> str:
    name = " + ".join(map(str, split))
    if split not in truth.windows:
        return f"| {name} | {kind} | not measured | | {predicted:.3g} s |"
    measured = truth.window(split)
    said = "" if np.isnan(predicted) else f"{predicted:.3g} s ({predicted / measured - 1:+.1%})"
    return f"| {name} | {kind} | {measured:.3g} s | {truth.regret(split):.1%} | {said} |"


def _spread(truth: Truth) -> float:
    return float(np.median([np.ptp(values) / np.mean(values) for values in truth.windows.values()]))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Regret of a campaign on a real case, against every split measured.")
    parser.add_argument("study", type=Path, help="study file whose load is real")
    parser.add_argument("--directory", type=Path, default=Path("real-campaign"), help="where the runs live")
    parser.add_argument("--ranks", type=int, help="ranks in all; by default as the study says")
    parser.add_argument(
        "--step", type=int, help="between totals of ranks; by default a quarter of the ranks, at least 1"
    )
    parser.add_argument("--repeats", type=int, default=2, help="runs of each split")
    options = parser.parse_args(argv)
    study = read_study(options.study)
    if options.ranks:
        study = study.changed({"machine": replace(study.machine, ranks=options.ranks)})
    splits = all_splits(study, options.step or max(study.budget // 4, 1))
    place = options.directory / "campaign"
    limited = study.model_copy(update={"runs": study.runs.model_copy(update={"maximum": RUNS, "splits": None})})
    options.directory.mkdir(parents=True, exist_ok=True)
    with (options.directory / "campaign.txt").open("w") as log, contextlib.redirect_stdout(log):
        run_and_recommend(limited, place)
    campaign = load_campaign(place)
    assert campaign is not None
    recommendation = json.loads((place / "recommendation.json").read_text(encoding="utf-8"))
    measured = measure(study, splits, options.directory, options.repeats)
    truth = truth_of(measured, recommendation["measurements"]["iterations"])
    print(f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, Python {platform.python_version()}\n")
    print(as_text(truth, recommendation, core_hours_of(campaign.runs)))


if __name__ == "__main__":
    main()
