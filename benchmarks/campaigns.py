"""The campaign benchmark: what splits are worth that rest on a few runs, chosen one after the other or beforehand.

    python benchmarks/campaigns.py --cases 334 --jobs 2
    python benchmarks/campaigns.py --cases 100 --participants 3 4 --jobs 2
    python benchmarks/campaigns.py --cases 100 --noise 0.02 0.1 --jobs 2

Solvers are those of the regret benchmark (`regret_parts.families`), two of a family or more: W1 = 10^U(2, 3) and the
others W1 8^U(-1, 1). A run of a split gives each solver's seconds with noise, the same draw for each contestant's k-th
run. The split is recommended by the posterior of the package's default learner over all runs. Regret is its true window
time (the slowest solver) over that of the best split, minus 1. Contestants:

adaptive     `precice_lb.CalibrationDesign`, as many runs as the fixed design.
fixed        P/16, P/4, P/2, 3P/4 and 15P/16 ranks for the first of two solvers; of more, `spread_splits`.
equal cost   `CalibrationDesign` with as many core-hours as the fixed design takes, however many runs these give.

Core-hours are those of the true window times, in units of a run at the best split.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from campaign_parts.report import as_json, as_text
from campaign_parts.simulate import simulate

from precice_lb.report.documents import json_text


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Regret of calibration campaigns on random solvers.")
    parser.add_argument("--cases", type=int, default=34, help="sets of solvers per family")
    parser.add_argument("--participants", type=int, nargs="+", default=[2], help="solvers of a case")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05], help="relative, of all solvers or of each")
    parser.add_argument("--budgets", type=int, nargs="+", default=[32, 128, 512], help="ranks in all")
    parser.add_argument("--runs", type=int, default=5, help="runs of a campaign")
    parser.add_argument("--no-equal-cost", action="store_true", help="leave out campaigns of equal core-hours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args(argv)
    results = []
    for participants in options.participants:
        for budget in options.budgets:
            result = simulate(
                participants,
                budget,
                cases=options.cases,
                noise=tuple(options.noise),
                runs=options.runs,
                equal_cost=not options.no_equal_cost,
                seed=options.seed,
                jobs=options.jobs,
            )
            results.append(result)
            print(as_text(result), flush=True)
            if options.output:
                options.output.write_text(json_text([as_json(each) for each in results]), encoding="utf-8")


if __name__ == "__main__":
    main()
