"""The automatic predictor on a climate model's coupling: predicted against measured, found against the best split.

    python benchmarks/climate.py --scale 0.1 --days 4 --jobs 5

Built as in D. Kim, J. W. Larson, K. Chiu, Automatic performance prediction for load-balancing coupled models, 2013,
section VI (`climate_parts/coupling.py` says how): five constituents, one process each, that sleep what their law says
for their rank count. One run gives the fractions between synchronisation points and the factor alpha, five give the
models; splits drawn at random, the one that was found and the best one are run to be compared with what was predicted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from climate_parts.coupling import NAMES, REFERENCE
from climate_parts.run import run_splits
from climate_parts.study import (
    calibration_splits,
    exhaustive,
    find_split,
    law,
    learned_seconds,
    predictor_of,
    random_splits,
    true_schedule,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Predicted against measured on a climate model's coupling.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[124, 208], help="ranks in all")
    parser.add_argument("--splits", type=int, default=10, help="random splits, for all numbers of ranks together")
    parser.add_argument("--days", type=int, default=4, help="days of each run; the first one does not count")
    parser.add_argument("--scale", type=float, default=0.1, help="seconds of sleep for a second of the law")
    parser.add_argument("--jobs", type=int, default=5, help="runs at the same time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    settings = {"scale": options.scale, "days": options.days, "jobs": options.jobs}
    schedule = true_schedule()
    print(f"reference split {_text(REFERENCE)}: {float(schedule.window_seconds(law(REFERENCE))):.2f} s per day")

    found, best = {}, {}
    calibration = {}
    for ranks in options.ranks:
        runs = run_splits(calibration_splits(ranks), **settings)
        predictor = predictor_of(runs[0])
        times = learned_seconds(runs, ranks)
        begin = time.process_time()
        found[ranks] = find_split(predictor, times, ranks)
        seconds = time.process_time() - begin
        split, true, tried = exhaustive(ranks, found[ranks].true)
        best[ranks] = split
        # Seconds as the law says them take up in alpha how much longer than asked for sleeps are.
        calibration[ranks] = predictor, predictor.calibrated(runs[0].day, law(runs[0].split)), times
        worse = found[ranks].true / true - 1
        print(
            f"{ranks} ranks: alpha {predictor.alpha:.4f}; found {_text(found[ranks].split)} in {seconds:.1f} s of CPU, "
            f"{found[ranks].true:.3f} s per day; best of {tried} {_text(split)}, {true:.3f} s; "
            f"the found one is {100 * worse:.2f} % longer"
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
        predictor, by_law, times = calibration[ranks]
        predicted = float(by_law.predict(law(split)))
        learned = float(predictor.predict({name: times[name][split[name] - 1] for name in NAMES}))
        print(
            f"| {ranks} | {kind} {_text(split)} | {run.day:.2f} s | {predicted:.2f} s | {_off(predicted, run.day)} | "
            f"{learned:.2f} s | {_off(learned, run.day)} |"
        )


def _text(split: dict[str, int]) -> str:
    return "(" + ", ".join(str(split[name]) for name in NAMES) + ")"


def _off(predicted: float, measured: float) -> str:
    return f"{100 * (predicted / measured - 1):+.2f} %"


if __name__ == "__main__":
    main()
