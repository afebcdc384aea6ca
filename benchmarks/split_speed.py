"""CPU seconds to find proven best splits, beside the enumeration of the papers at sizes it can do.

Run with ``python benchmarks/split_speed.py``. Every problem twice: with smooth times (work / p + log2 p + p) and with
jagged ones (the same times up to 10 % more, at random for each count, so that they rise and fall). One thread; CPU
seconds are of this process and include evaluating the curves, not making the tables. Enumeration is Schröder's (2019,
section 1.3.1; Totounferoush 2022, section 3.3): all splits that use up the budget, in numpy batches; it assumes that
times never rise, so that it is timed on smooth ones, and both answers must be the same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, SplitResult, optimize_split

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from precice_xml_helpers import configuration, scheme

from precice_lb.case import parse_configuration

#: More splits than this are not enumerated.
ENUMERATED = 20_000_000


def composed(names: str, *schemes: tuple[str, str], iterations: int = 1) -> Schedule:
    """Schedule of several schemes between two participants each."""
    text = configuration(names, [scheme(*one) for one in schemes])
    return Schedule.from_config(parse_configuration(text), dict.fromkeys(names, iterations))


MIXTURE = composed("ABCD", ("serial-explicit", "AB"), ("serial-explicit", "BC"), ("parallel-explicit", "BD"))
GENERAL = composed(
    "ABCDEF",
    ("serial-implicit", "AB"),
    ("serial-explicit", "BC"),
    ("serial-explicit", "CD"),
    ("serial-explicit", "DE"),
    ("parallel-explicit", "EF"),
    iterations=2,
)
NODES = Constraints(unit="nodes", cores_per_node=48, whole_nodes=True)
SHARED = Constraints(unit="nodes", cores_per_node=48)


def tables(names: str, ranks: int, jagged: bool) -> dict[str, np.ndarray]:
    """Seconds per window of each participant at 1, 2, ... ranks."""
    random = np.random.default_rng(0)
    p = np.arange(1, ranks + 1)
    times = {name: (i + 1) * 1e4 / p + 1e-3 * np.log2(p) + 1e-7 * p for i, name in enumerate(names)}
    return {name: t * random.uniform(1.0, 1.1, ranks) for name, t in times.items()} if jagged else times


def enumerate_all(times: dict[str, np.ndarray], budget: int, schedule: Schedule) -> float:
    """Best window time over all splits of the whole budget."""
    names, best = list(times), math.inf
    cuts = combinations(range(1, budget), len(names) - 1)
    while batch := [cut for _, cut in zip(range(200_000), cuts, strict=False)]:
        edges = np.pad(np.array(batch), ((0, 0), (1, 1)), constant_values=((0, 0), (0, budget)))
        splits = np.diff(edges, axis=1)
        costs = {name: times[name][splits[:, i] - 1] for i, name in enumerate(names)}
        best = min(best, float(schedule.window_seconds(costs).min()))
    return best


def timed(call: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Least CPU seconds, and what came out."""
    least, result = math.inf, None
    for _ in range(repeats):
        begin = time.process_time()
        result = call()
        least = min(least, time.process_time() - begin)
    return least, result


def main() -> None:
    """Print one line per problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    problems: list[tuple[str, Schedule, int, int, Constraints | None, bool]] = [
        ("maximum of 8", Schedule.parallel("ABCDEFGH"), 1_000_000, 1_000_000, None, False),
        ("mixture of 4", MIXTURE, 100_000, 100_000, None, False),
        ("sum of 4", Schedule.serial("ABCD"), 100_000, 100_000, None, False),
        ("general of 6, whole nodes", GENERAL, 1_000, 48_000, NODES, False),
        ("general of 6, shared nodes", GENERAL, 1_000, 48_000, SHARED, False),
        ("maximum of 2", Schedule.parallel("AB"), 100_000, 100_000, None, True),
        ("maximum of 3", Schedule.parallel("ABC"), 4_000, 4_000, None, True),
        ("mixture of 4", MIXTURE, 200, 200, None, True),
        ("maximum of 8", Schedule.parallel("ABCDEFGH"), 30, 30, None, True),
    ]
    for label, schedule, budget, length, constraints, with_enumeration in problems:
        for jagged in (False, True):
            times = tables("".join(schedule.participants), length, jagged)
            solve = partial(optimize_split, times, budget, coupling=schedule, constraints=constraints)
            seconds, found = timed(solve, options.repeats)
            assert isinstance(found, SplitResult)
            row: dict[str, object] = {
                "problem": label,
                "budget": budget,
                "times": "jagged" if jagged else "smooth",
                "cpu_seconds": round(seconds, 4),
                "gap": found.gap,
                "splits": math.comb(budget - 1, len(schedule.participants) - 1),
            }
            if with_enumeration and not jagged:
                assert row["splits"] <= ENUMERATED
                by_papers, best = timed(partial(enumerate_all, times, budget, schedule), 1)
                assert math.isclose(best, found.window_seconds, rel_tol=1e-9), (best, found.window_seconds)
                row["enumeration_cpu_seconds"] = round(by_papers, 3)
            print(json.dumps(row) if options.json else "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)


if __name__ == "__main__":
    main()
