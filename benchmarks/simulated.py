"""Regret of decisions on solvers simulated on clusters: memory saturates within a node, and every node brings more.

    python benchmarks/simulated.py --jobs 2
    python benchmarks/simulated.py --coupled

Pairs of solvers of `benchmarks/data/simulated.csv` on one cluster, which `simulated_parts.simulate` has made, share 64,
128 and 240 ranks (`--budgets`) in multiples of 4 (`--multiple`) after readings with noise: five of each solver up to
half of the budget, or the last of these alone (`--readings`). Regret is the true window time of the chosen split over
that of the best one, minus 1, by budget: mean [95 % bootstrap interval] / median.

Learners decide through `precice_lb.recommend_split`, with `-known` told the cores per node. `line` is a straight line
in logarithms, through a single reading perfect scaling. `smooth` knows the truth but for its steps: it decides by
curves of which every count is averaged with its neighbours.

With `--coupled`, windows of pairs that were simulated coupled are held against those that `precice_lb.schedule` gives
for what the solvers take alone, and for what they took in that run.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from regret_parts.decide import Score, Split, choose, decide, score
from regret_parts.report import budget_figures, row_text
from simulated_parts.curves import COUPLED, SimulatedCurve, SimulatedPair, draw_pair, load_curves
from threadpoolctl import threadpool_limits

from precice_lb.models import DEFAULT_LEARNER, LEARNERS
from precice_lb.schedule import Schedule
from precice_lb.text import json_text

KNOWN = "-known"
# Of the averages of `smooth`, in logarithms of ranks.
WIDTH = 0.1


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Regret of decisions on simulated solvers.")
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--noise", type=float, default=0.03, help="relative standard deviation")
    parser.add_argument(
        "--readings", type=int, nargs="+", default=[5, 1], help="of each solver; one is the last of more"
    )
    parser.add_argument("--budgets", type=int, nargs="+", default=[64, 128, 240])
    parser.add_argument("--multiple", type=int, default=4, help="ranks are given out in multiples of this")
    contestants = (*LEARNERS, *(f"{name}{KNOWN}" for name in LEARNERS), "line", "equal", "smooth")
    standard = (DEFAULT_LEARNER, f"{DEFAULT_LEARNER}{KNOWN}", "line", "equal", "smooth")
    parser.add_argument("--learners", nargs="+", choices=contestants, default=standard)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--coupled", action="store_true", help="windows of coupled runs in place of decisions")
    options = parser.parse_args(argv)
    curves = load_curves()
    if options.coupled:
        _print_coupled(curves)
        return
    noise, budgets = f"{100 * options.noise:g} % noise", f"P = {options.budgets} in multiples of {options.multiple}"
    print(f"{len(curves)} curves, {options.pairs} pairs, {noise}, {budgets}")
    tables = {}
    with multiprocessing.get_context("spawn").Pool(options.jobs, threadpool_limits, (1,)) as pool:
        for readings in options.readings:
            tasks = [(curves, index, readings, options) for index in range(options.pairs)]
            outcomes = pool.starmap(_run, tasks, chunksize=5)
            tables[readings] = {
                name: budget_figures([scores[name] for scores in outcomes]) for name in options.learners
            }
            print(f"readings of each solver: {readings}")
            for name, row in tables[readings].items():
                print(row_text(name, row, "median"), flush=True)
    if options.output:
        asked = {key: getattr(options, key) for key in ("pairs", "seed", "noise", "budgets", "multiple")}
        options.output.write_text(json_text({**asked, "readings": {str(key): by for key, by in tables.items()}}))


def _run(curves: Sequence[SimulatedCurve], index: int, readings: int, options: argparse.Namespace) -> dict[str, Score]:
    """Let contestants decide for one pair."""
    scores: dict[str, list[Score]] = {name: [] for name in options.learners}
    for budget in options.budgets:
        blocks = budget // options.multiple
        pair = draw_pair(curves, blocks, options.multiple, options.seed, index, options.noise, readings)
        for name, of_budgets in scores.items():
            machine = {"cores_per_node": pair.cores_per_node} if name.endswith(KNOWN) else None
            decision = partial(
                decide, name.removesuffix(KNOWN), pair.ranks, pair.seconds, [blocks], [(1, blocks - 1)],
                block=options.multiple, machine=machine,
            )  # fmt: skip
            if name == "smooth":
                decision = partial(_smooth, pair, blocks)
            of_budgets.append(score(pair.solvers, [blocks], [(1, blocks - 1)], decision))
    return {
        name: Score(
            *(np.concatenate([getattr(row, field) for row in rows]) for field in Score._fields[:3]),
            sum(row.seconds for row in rows),
        )
        for name, rows in scores.items()
    }


def _smooth(pair: SimulatedPair, blocks: int) -> list[Split | None]:
    """Split by the solvers' own curves, each count averaged with those within some 10 %."""
    logs = np.log(np.arange(1.0, blocks))
    weights = np.exp(-0.5 * ((logs[:, None] - logs) / WIDTH) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    first, second = (np.exp(weights @ np.log(solver(np.exp(logs))))[None] for solver in pair.solvers)
    return [choose(first, second, blocks, (1, blocks - 1))]


def _print_coupled(curves: Sequence[SimulatedCurve]) -> None:
    """Print windows of coupled runs beside what the schedule makes of the solvers' seconds."""
    alone = {
        (curve.name, curve.cores_per_node, curve.source, int(ranks)): float(seconds)
        for curve in curves
        for ranks, seconds in zip(curve.ranks, curve.seconds, strict=True)
    }
    schedules = {"parallel": Schedule.parallel(("first", "second")), "serial": Schedule.serial(("first", "second"))}
    print("coupling  solvers                         split       window  from alone  from coupled")
    with COUPLED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            window, schedule = float(row["window_seconds"]), schedules[row["coupling"]]
            cluster = (int(row["cores_per_node"]), row["selector"])
            apart = {key: alone[(row[key], *cluster, int(row[f"{key}_ranks"]))] for key in ("first", "second")}
            beside = {key: float(row[f"{key}_seconds"]) for key in ("first", "second")}
            off = [100 * (float(schedule.window_seconds(seconds)) / window - 1) for seconds in (apart, beside)]
            print(
                f"{row['coupling']:9} {row['first'] + ' + ' + row['second']:31} "
                f"{row['first_ranks'] + ' + ' + row['second_ranks']:9} {1e3 * window:7.2f} ms "
                f"{off[0]:+9.2f} % {off[1]:+11.2f} %"
            )


if __name__ == "__main__":
    main()
