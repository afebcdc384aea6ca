"""The regret benchmark: what the splits of each learner cost, on random pairs of solvers with known truth.

    python benchmarks/regret.py --pairs 300 --points 5 --noise 0.05 --learners bayes oracle --jobs 2

Pairs of solvers have work W1 = 10^U(2, 3) and W2 = W1 8^U(-1, 1), a falling part, a serial share of 10^U(-4, -2) and a
rise that puts the minimum at 2^U(6, 12) ranks, of three families (see `regret_parts.families`). Each is read once, with
noise, at 3, 5 or 7 rank counts. P ranks are split, at least 2 each; regret is the true window time of the chosen split
over that of the best split of at most P ranks, minus 1. Contestants see the same readings. Learners decide through
`precice_lb.recommend_split`. Besides them: the equal split; the one proportional to degrees of freedom, W e^(N/2); a
straight line in logarithms (line); an oracle that knows families, priors and noise, so that its regret is what the
readings do not tell; bayes that is told the standard error of each reading (bayes-told); and Extra-P 4.2.5 with
negative exponents. None of these leaves ranks unused, as `recommend_split` may.

With `--block K` learners see K times as many ranks, readings and budgets: what a learner that knows no scale must not
notice.

A long run can be interrupted, and contestants added to it, with `--archive DIRECTORY`:

    python benchmarks/regret.py --pairs 2000 --learners oracle line --archive outcomes
    python benchmarks/regret.py --pairs 2000 --learners oracle line bayes --archive outcomes

Extra-P needs an environment of its own:

    python3 -m venv extrap-env && extrap-env/bin/pip install extrap==4.2.5
    python benchmarks/regret.py --extrap extrap-env/bin/python
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from regret_parts.archive import Archive
from regret_parts.readings import DESIGNS
from regret_parts.report import as_json, as_text
from regret_parts.simulate import SETS, simulate

from precice_lb.models import DEFAULT_LEARNER, LEARNERS
from precice_lb.text import json_text

PEERS = ("bayes-told", "equal", "dof-proportional", "line", "oracle")
DEFAULT = (DEFAULT_LEARNER, "line", "equal", "oracle")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description="Regret of learners on random pairs of solvers.")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of solvers per family")
    parser.add_argument("--points", type=int, nargs="+", choices=DESIGNS, default=[5], help="readings per solver")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05], help="relative standard deviation")
    parser.add_argument("--budgets", type=int, nargs="+", default=[32, 128, 512], help="ranks in all")
    parser.add_argument("--block", type=int, default=1, help="learners see so many times as many ranks, and budgets")
    parser.add_argument("--families", choices=SETS, default="known", help="known to the oracle, or unseen")
    contestants = (*LEARNERS, *PEERS)
    parser.add_argument("--learners", nargs="+", choices=contestants, default=DEFAULT, help="who takes part")
    parser.add_argument("--extrap", metavar="PYTHON", help="Python of an environment with extrap 4.2.5")
    parser.add_argument("--reference", help="with whom all are compared, pair by pair: the oracle, else the default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--archive", type=Path, help="directory of outcomes, not computed again where they are known")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args(argv)
    # The oracle does not know the unseen families.
    known = tuple(name for name in options.learners if options.families == "known" or name != "oracle")
    contestants = known + (("extra-p",) if options.extrap else ())
    reference = options.reference or ("oracle" if "oracle" in contestants else DEFAULT_LEARNER)
    results = []
    for points in options.points:
        for noise in options.noise:
            result = simulate(
                SETS[options.families],
                contestants,
                pairs=options.pairs,
                points=points,
                noise=noise,
                budgets=tuple(options.budgets),
                seed=options.seed,
                jobs=options.jobs,
                extrap=options.extrap,
                archive=options.archive and Archive(options.archive),
                block=options.block,
            )
            results.append(result)
            print(as_text(result, reference), flush=True)
            if options.output:
                data = [as_json(each, reference) for each in results]
                options.output.write_text(json_text(data), encoding="utf-8")


if __name__ == "__main__":
    main()
