"""The automatic predictor on a climate model's coupling: predicted against measured, found against the best split.

    python benchmarks/climate.py --scale 0.1 --days 4 --jobs 5

Built as in D. Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models, 2013,
section VI (`climate_parts/coupling.py` says how): five constituents, one process each, that sleep what their law says
for their rank count (with `--emulated` their clocks are set forward instead). One run gives the fractions between
synchronisation points and the factor alpha; after five `precice_lb.recommend_split` finds a split. Splits drawn at
random, the one that was found and the best one are run to be compared with what was predicted.

    python benchmarks/climate.py --chain --jobs 2

Their five bad starts on 124 ranks and on 208: a chain of jobs (`precice_lb.chain`), their optimiser with its automatic
predictor and with the manual rule (`climate_parts/kim.py`), on an emulated clock with noise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Sequence

import numpy as np
from climate_parts.chain import CONTESTANTS, STARTS, run_contestant
from climate_parts.coupling import NAMES, REFERENCE
from climate_parts.run import run_splits
from climate_parts.study import (
    calibration_splits,
    exhaustive,
    law,
    predictor_of,
    random_splits,
    recommended,
    true_day,
)
from threadpoolctl import threadpool_limits


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Predicted against measured on a climate model's coupling.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[124, 208], help="ranks in all")
    parser.add_argument("--splits", type=int, default=10, help="random splits, for all numbers of ranks together")
    parser.add_argument("--days", type=int, default=4, help="days of each run; the first one does not count")
    parser.add_argument("--scale", type=float, default=0.1, help="seconds of sleep for a second of the law")
    parser.add_argument("--jobs", type=int, default=5, help="runs at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--emulated", action="store_true", help="emulated clocks in place of sleep")
    parser.add_argument("--chain", action="store_true", help="chains of jobs from bad starts, in place of the above")
    options = parser.parse_args(argv)
    if options.chain:
        _chains(options.ranks, options.jobs, options.seed)
        return
    settings = {"scale": options.scale, "days": options.days, "jobs": options.jobs, "emulated": options.emulated}
    print(f"reference split {_text(REFERENCE)}: {true_day(REFERENCE):.2f} s per day")

    found, best = {}, {}
    calibration = {}
    for ranks in options.ranks:
        runs = run_splits(calibration_splits(ranks), **settings)
        predictor = predictor_of(runs[0])
        begin = time.process_time()
        found[ranks] = recommended(runs, predictor, ranks)
        seconds = time.process_time() - begin
        day = true_day(found[ranks].split)
        split, true, tried = exhaustive(ranks, day)
        best[ranks] = split
        # Seconds as the law says them take up in alpha how much longer than asked for sleeps are.
        calibration[ranks] = predictor, predictor.calibrated(runs[0].day, law(runs[0].split))
        print(
            f"{ranks} ranks: alpha {predictor.alpha:.4f}; found {_text(found[ranks].split)} in {seconds:.1f} s of CPU, "
            f"{day:.3f} s per day; best of {tried} {_text(split)}, {true:.3f} s; "
            f"the found one is {100 * (day / true - 1):.2f} % longer"
        )

    generator = np.random.default_rng(options.seed)
    tasks = []
    for index, ranks in enumerate(options.ranks):
        share = len(range(index, options.splits, len(options.ranks)))
        tasks += [(ranks, "random", split) for split in random_splits(ranks, share, generator)]
        tasks += [(ranks, "found", found[ranks].split), (ranks, "best", best[ranks])]
    measured = run_splits([split for _, _, split in tasks], **settings)
    print("\n| ranks | split (cpl, atm, ocn, land, ice) | measured | predicted | off | with learned models | off |")
    print("|---|---|---|---|---|---|---|")
    for (ranks, kind, split), run in zip(tasks, measured, strict=True):
        predictor, by_law = calibration[ranks]
        predicted = float(by_law.predict(law(split)))
        learned = float(predictor.predict(found[ranks].expected.mean_seconds(split)))
        print(
            f"| {ranks} | {kind} {_text(split)} | {run.day:.2f} s | {predicted:.2f} s | {_off(predicted, run.day)} | "
            f"{learned:.2f} s | {_off(learned, run.day)} |"
        )


def _chains(budgets: Sequence[int], jobs: int, seed: int) -> None:
    tasks = [(ranks, start, kind, seed) for ranks in budgets for start in STARTS[ranks] for kind in CONTESTANTS]
    with multiprocessing.get_context("spawn").Pool(jobs, threadpool_limits, (1,)) as pool:
        ended = pool.map(run_contestant, tasks, chunksize=1)
    best = {
        ranks: exhaustive(ranks, min(min(each.seconds) for each in ended if each.ranks == ranks)) for ranks in budgets
    }
    for ranks, (split, seconds, tried) in best.items():
        print(f"{ranks} ranks: best of {tried} {_text(split)}, {seconds:.2f} s per day")
    head = "| ranks | start | contestant | first | final | final split | over best | shorter | decisions | days | moves"
    print(f"\n{head} | undone |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for each, (_, start, kind, _) in zip(ended, tasks, strict=True):
        first, final = each.seconds[0], each.seconds[-1]
        over, shorter = 100 * (final / best[each.ranks][1] - 1), 100 * (1 - final / first)
        print(
            f"| {each.ranks} | ({', '.join(map(str, start))}) | {kind} | {first:.2f} s | {final:.2f} s | "
            f"{_text(each.splits[-1])} | {over:.1f} % | {shorter:.0f} % | {len(each.splits) - 1} | {each.days} | "
            f"{each.moves} | {each.undone} |"
        )
    for ranks in budgets:
        for kind in CONTESTANTS:
            group = [each for each, task in zip(ended, tasks, strict=True) if task[0] == ranks and task[2] == kind]
            shorter = [100 * (1 - each.seconds[-1] / each.seconds[0]) for each in group]
            over = [100 * (each.seconds[-1] / best[ranks][1] - 1) for each in group]
            print(
                f"{ranks} ranks, {kind}: {np.mean(shorter):.1f} % shorter, {np.mean(over):.1f} % over the best in the "
                f"mean and {max(over):.1f} % at most; {np.mean([each.moves for each in group]):.1f} moves, "
                f"{np.mean([each.undone for each in group]):.1f} of them undone, "
                f"{np.mean([len(each.splits) - 1 for each in group]):.1f} decisions"
            )


def _text(split: dict[str, int]) -> str:
    return "(" + ", ".join(str(split[name]) for name in NAMES) + ")"


def _off(predicted: float, measured: float) -> str:
    return f"{100 * (predicted / measured - 1):+.2f} %"


if __name__ == "__main__":
    main()
