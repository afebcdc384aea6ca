"""Regret of decisions on measured strong-scaling curves of many codes, and whether intervals hold the window times.

    python benchmarks/real_curves.py --pairs 600 --jobs 2

Pairs of solvers are curves of two sources of `benchmarks/data/curves.csv` (see `regret_parts.curves`), each read with
noise at five rank counts in the lower half of the range that both span (`--readings`, `--read-up-to`). P is one, two
and three times the last of these (`--budgets`). Learners decide through `precice_lb.recommend_split`. Regret is the
true window time of the chosen split over that of the best one of at most P ranks, minus 1. Either solver gets so many
ranks that nothing is extrapolated in the truth, whatever the other gets: at least the last reading where P is three
times that. With `--free` it may get as few as were read.

`bayes` is the default learner. `bayes-chosen` is the same with its prior chosen, for each pair, out of
`regret_parts.settings.SETTINGS` by the predictive density of curves of all other sources. `line` is a straight line in
logarithms, through a single reading perfect scaling. Extra-P needs an environment of its own, as of `regret.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from regret_parts.curves import READINGS, MeasuredCurve, draw_curve_pair, load_curves
from regret_parts.decide import Score, decide, score
from regret_parts.report import budget_figures, row_text
from regret_parts.settings import SETTINGS, densities
from threadpoolctl import threadpool_limits

from precice_lb.models import DEFAULT_LEARNER, LEARNERS
from precice_lb.text import json_text


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description="Regret of decisions on measured strong-scaling curves.")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.03, help="relative standard deviation")
    parser.add_argument("--readings", type=int, default=READINGS, help="of each solver; one is the last of more")
    parser.add_argument("--read-up-to", type=float, default=0.5, help="share of the most ranks")
    parser.add_argument("--budgets", type=float, nargs="+", default=[1, 2, 3], help="over the last reading")
    parser.add_argument("--free", action="store_true", help="from the first reading on, so that ranks may be left over")
    contestants = (*LEARNERS, "bayes-chosen", "line", "equal")
    parser.add_argument("--learners", nargs="+", choices=contestants, default=(DEFAULT_LEARNER, "line", "equal"))
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
        print("chosen:", Counter(chosen for _, chosen in outcomes))
        print("mean log density:", {name: round(float(np.mean([*by.values()])), 3) for name, by in tables.items()})
    figures = {name: budget_figures([scores[name] for scores, _ in outcomes]) for name in names}
    for name, row in figures.items():
        print(row_text(name, row))
    if options.output:
        asked = {
            key: getattr(options, key)
            for key in ("pairs", "seed", "noise", "readings", "read_up_to", "free", "budgets")
        }
        options.output.write_text(json_text({**asked, "learners": figures}))


def _run(
    curves: Sequence[MeasuredCurve],
    index: int,
    names: Sequence[str],
    tables: Mapping[str, Mapping[str, float]],
    options: argparse.Namespace,
) -> tuple[dict[str, Score], str]:
    """Let contestants decide for one pair; with the setting that was chosen for it."""
    pair = draw_curve_pair(curves, options.seed, index, options.noise, options.readings, options.read_up_to)
    budgets = [int(share * pair.ranks[-1]) for share in options.budgets]
    bounds = [pair.bounds(budget, options.free) for budget in budgets]
    setting = _chosen(tables, {curve.source for curve in pair.curves})
    scores = {}
    for name in names:
        parameters = {"prior": SETTINGS[setting]} if name == "bayes-chosen" else None
        decision = partial(
            decide, name.removesuffix("-chosen"), pair.ranks, pair.seconds, budgets, bounds,
            parameters=parameters, extrap=options.extrap,
        )  # fmt: skip
        scores[name] = score(pair.solvers, budgets, bounds, decision)
    return scores, setting


def _chosen(tables: Mapping[str, Mapping[str, float]], out: set[str]) -> str:
    """Choose the setting with the highest density of all sources but some."""
    totals = {name: sum(value for source, value in by.items() if source not in out) for name, by in tables.items()}
    return max(totals, key=totals.__getitem__, default="default")


if __name__ == "__main__":
    main()
