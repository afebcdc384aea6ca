"""The campaign benchmark: what splits are worth that rest on a few runs, chosen one after the other or beforehand.

    python benchmarks/campaigns.py --cases 334 --jobs 2
    python benchmarks/campaigns.py --cases 100 --participants 3 4 --jobs 2
    python benchmarks/campaigns.py --cases 100 --noise 0.02 0.1 --jobs 2
    python benchmarks/campaigns.py --course simulated --cases 150 --budgets 64 128 240 --jobs 2

Solvers are those of the regret benchmark (`regret_parts.families`), two of a family or more: W1 = 10^U(2, 3) and the
others W1 8^U(-1, 1). A run of a split gives each solver's seconds with noise, the same draw for each contestant's k-th
run. The split is recommended by the posterior of the package's default learner over all runs. Regret is its true window
time (the slowest solver) over that of the best split, minus 1. Contestants:

adaptive     `precice_lb.CalibrationDesign`, as many runs as the fixed design.
fixed        P/16, P/4, P/2, 3P/4 and 15P/16 ranks for the first of two solvers; of more, `spread_splits`.
equal cost   `CalibrationDesign` with as many core-hours as the fixed design takes, however many runs these give.

Core-hours are those of the true window times, in units of a run at the best split.

With `--course`, what adaptive campaigns of 8 runs (`--after`) lose after each of these: pairs of the seen families with
5 % noise, of simulated solvers whose nodes are known (see `simulated.py`), or of published curves (see
`real_curves.py`, with the most ranks that both span as the budget), these with 3 % noise. `--stops` lets the design end
a campaign.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from campaign_parts.course import SETS, course_text, courses
from campaign_parts.report import as_json, as_text
from campaign_parts.simulate import simulate

from precice_lb.text import json_text


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Regret of calibration campaigns on random solvers.")
    parser.add_argument("--cases", type=int, default=34, help="sets of solvers per family")
    parser.add_argument("--participants", type=int, nargs="+", default=[2], help="solvers of a case")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05], help="relative, of all solvers or of each")
    parser.add_argument("--budgets", type=int, nargs="+", default=[32, 128, 512], help="ranks in all")
    parser.add_argument("--runs", type=int, default=5, help="runs of a campaign")
    parser.add_argument("--no-equal-cost", action="store_true", help="leave out campaigns of equal core-hours")
    parser.add_argument("--course", choices=sorted(SETS), help="what is lost after each run, on this set")
    parser.add_argument("--after", type=int, nargs="+", default=[1, 2, 3, 5, 8], help="runs, with --course")
    parser.add_argument("--stops", action="store_true", help="let campaigns end, with --course")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args(argv)
    if options.course:
        words = {"cases": options.cases, "runs": max(options.after), "stops": options.stops}
        for budget in options.budgets if options.course != "published" else [0]:
            found = courses(options.course, budget, **words, seed=options.seed, jobs=options.jobs)
            print(course_text(options.course, budget, found, options.after), flush=True)
        return
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
