"""Regret on measured strong-scaling curves of many codes, and whether intervals hold them.

    python benchmarks/real_curves.py --pairs 600 --jobs 2

Pairs of solvers are curves of two sources of `benchmarks/data/curves.csv` (see `regret_parts.curves`), each read with
noise at five rank counts in the lower half of the range that both span (`--readings`, `--read-up-to`). P is one, two
and three times the last of these (`--budgets`). Regret is the true window time of the chosen split over that of the
best one, minus 1; nothing is extrapolated in the truth.

`bayes` is the default learner. `bayes-chosen` is the same with its prior chosen, for each pair, out of
`regret_parts.settings.SETTINGS` by the predictive density of curves of all other sources. `line` is a straight line in
logarithms, through a single reading perfect scaling. Extra-P needs an environment of its own, as of `regret.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regret_parts.curves import INSIDE, READINGS, CurvePair, MeasuredCurve, draw_curve_pair, load_curves
from regret_parts.decide import DRAWS, valid_curve
from regret_parts.peers import ExtraP, line_in_logarithms
from regret_parts.settings import SETTINGS, Setting, densities
from regret_parts.statistics import describe
from threadpoolctl import threadpool_limits

from precice_lb.exceptions import PreciceLBError
from precice_lb.models import LEARNERS, make_learner
from precice_lb.report.documents import json_text

Array = NDArray[np.float64]
Curves = Callable[[Array], Array]

NAMES = ("bayes", "bayes-chosen", "shape", "gaussian-process", "line", "piecewise", "interpolation", "pmnf", "equal")
# Of the intervals.
LEVEL = 0.8


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description="Regret of learners on measured strong-scaling curves.")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.03, help="relative standard deviation")
    parser.add_argument("--readings", type=int, default=READINGS, help="of each solver; one is the last of more")
    parser.add_argument("--read-up-to", type=float, default=0.5, help="share of the most ranks")
    parser.add_argument("--budgets", type=float, nargs="+", default=[1, 2, 3], help="over the last reading")
    parser.add_argument("--learners", nargs="+", choices=(*LEARNERS, "bayes-chosen", "line", "equal"), default=NAMES)
    parser.add_argument("--extrap", metavar="PYTHON", help="Python of an environment with extrap 4.2.5")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args(argv)
    curves = load_curves()
    names = (*options.learners, *(("extra-p",) if options.extrap else ()))
    with multiprocessing.get_context("spawn").Pool(options.jobs, threadpool_limits, (1,)) as pool:
        tables = {}
        if "bayes-chosen" in names:
            tasks = [(curves, setting, options.seed, options.noise) for setting in SETTINGS.values()]
            tables = dict(zip(SETTINGS, pool.starmap(densities, tasks, chunksize=1), strict=True))
        tasks = [(curves, index, names, tables, options) for index in range(options.pairs)]
        outcomes = pool.starmap(_run, tasks, chunksize=5)
    sources = len({curve.source for curve in curves})
    print(f"{len(curves)} curves of {sources} sources, {options.pairs} pairs, {100 * options.noise:g} % noise")
    if tables:
        print("chosen:", Counter(chosen for *_, chosen in outcomes))
        print("mean log density:", {name: round(float(np.mean([*each.values()])), 3) for name, each in tables.items()})
    figures = {name: _figures([each[name] for each, _ in outcomes]) for name in names}
    for name, found in figures.items():
        regrets = "  ".join(
            f"{each['mean']:6.2f} [{each['low']:.2f}, {each['high']:.2f}] / {each['p95']:.1f}"
            for each in found["regret_percent"]
        )
        covered = " ".join("   " if np.isnan(each) else f"{each:3.0f}" for each in found["coverage_percent"])
        print(f"{name:17} {regrets}  covered {covered}  {found['cpu_milliseconds']:.0f} ms")
    if options.output:
        options.output.write_text(json_text({"seed": options.seed, "noise": options.noise, "learners": figures}))


def _run(
    curves: Sequence[MeasuredCurve],
    index: int,
    names: Sequence[str],
    tables: Mapping[str, Mapping[str, float]],
    options: argparse.Namespace,
) -> tuple[dict[str, tuple[list[float], list[float], float]], str]:
    """Regrets by budget, shares covered in range and at twice the last reading, and CPU seconds; the chosen setting."""
    pair = draw_curve_pair(curves, options.seed, index, options.noise, options.readings, options.read_up_to)
    chosen = _chosen(tables, {curve.source for curve in pair.curves})
    found = {}
    for name in names:
        begin = time.process_time()
        learned = _learned(name, pair, options, SETTINGS[chosen])
        regrets = [_regret(pair, learned, int(share * pair.ranks[-1])) for share in options.budgets]
        found[name] = (regrets, _covered(pair, learned), time.process_time() - begin)
    return found, chosen


def _chosen(tables: Mapping[str, Mapping[str, float]], out: set[str]) -> str:
    """Choose the setting with the highest density of all sources but some."""
    totals = {name: sum(value for source, value in each.items() if source not in out) for name, each in tables.items()}
    return max(totals, key=totals.__getitem__, default="default")


def _learned(name: str, pair: CurvePair, options: argparse.Namespace, setting: Setting) -> list[Curves] | None:
    """Give curves of both solvers; None for who learns nothing."""
    if name == "equal":
        return None
    return [_curves(name, pair, seconds, seed, options, setting) for seed, seconds in enumerate(pair.seconds)]


def _curves(
    name: str, pair: CurvePair, seconds: Array, seed: int, options: argparse.Namespace, setting: Setting
) -> Curves:
    highest = int(pair.start * pair.span)
    if name == "line":
        return line_in_logarithms(pair.ranks, seconds)
    if name == "extra-p":
        predicted = _peer(options.extrap).curve(pair.ranks, seconds, highest)
        predicted[~np.isfinite(predicted)] = np.inf
        return lambda ranks: predicted[:, np.minimum(ranks.astype(int), highest) - 1]
    model: Any = make_learner("bayes", prior=setting) if name == "bayes-chosen" else make_learner(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(pair.ranks[:, None], seconds)
        except PreciceLBError:
            return lambda ranks: np.full((1, len(ranks)), np.inf)
    if hasattr(model, "draw"):
        drawn: Curves = model.draw(DRAWS, seed)
        return drawn
    at = np.arange(1, highest + 1, dtype=np.float64)
    valid = valid_curve(np.asarray(model.predict(at[:, None]), dtype=np.float64), pair.ranks)
    return lambda ranks: valid[:, np.minimum(ranks.astype(int), highest) - 1]


@lru_cache(maxsize=1)
def _peer(python: str) -> ExtraP:
    """Extra-P's process, which ends with this one."""
    return ExtraP(python)


def _regret(pair: CurvePair, learned: Sequence[Curves] | None, budget: int) -> float:
    first, windows = pair.splits(budget)
    at = int(np.argmin(np.abs(first - budget / 2)))
    if learned is not None:
        expected = np.maximum(learned[0](first), learned[1](budget - first)).mean(axis=0)
        # Who offers no split gets the equal one.
        at = int(np.argmin(expected)) if np.isfinite(expected).any() else at
    return float(windows[at] / windows.min() - 1)


def _covered(pair: CurvePair, learned: Sequence[Curves] | None) -> list[float]:
    """Shares of truths that intervals hold, between the readings and at twice the last one."""
    places = np.append(np.sqrt(pair.ranks[:-1] * pair.ranks[1:]), 2 * pair.ranks[-1])
    inside = []
    for solver, curves in zip(pair.solvers, learned or (), strict=False):
        drawn = curves(places)
        if len(drawn) < 2:
            return [np.nan, np.nan]
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        truth = solver(np.minimum(places, pair.start * pair.span * INSIDE))
        inside.append((low <= truth) & (truth <= high))
    if not inside:
        return [np.nan, np.nan]
    return [float(np.mean([each[:-1] for each in inside])), float(np.mean([each[-1] for each in inside]))]


def _figures(outcomes: Sequence[tuple[list[float], list[float], float]]) -> dict[str, Any]:
    regrets, covered, seconds = (np.array(each) for each in zip(*outcomes, strict=True))
    return {
        "regret_percent": [describe(column) for column in regrets.T],
        "coverage_percent": (100 * covered.mean(axis=0)).tolist(),
        "cpu_milliseconds": 1e3 * float(seconds.mean()),
    }


if __name__ == "__main__":
    main()
