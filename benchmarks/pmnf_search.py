"""Hypotheses per CPU second of the PMNF search, beside a plain loop over scikit-learn.

Run with ``python benchmarks/pmnf_search.py``. Seven points, the search space of Schröder 2019, equation 5.1 (100 terms:
4,950 hypotheses of two terms, 161,700 of three), leave-one-out and SMAPE. The plain loop fits each hypothesis once for
each point left out, with terms scaled to 1 (LinearRegression cuts small singular values off, which on terms of very
different size is no least squares any more). Where it goes over every hypothesis, both have to find the same winner.
For three terms that takes a quarter of an hour (``--every 1 1``), so that by default it goes over every 50th, and the
search's winner has to be no worse than the best of those. One thread; CPU seconds are of this process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time

import numpy as np
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from precice_lb.models.published.normal_form import EQ_5_1_I, EQ_5_1_J, PMNFRegressor, smape

RANKS = np.array([8.0, 12, 20, 32, 50, 80, 128])
# Later versions of scikit-learn can be told where to cut.
EXACT = {"tol": 1e-15} if "tol" in LinearRegression().get_params() else {}
TERMS = list(itertools.product(EQ_5_1_I, EQ_5_1_J))


def measured(seed: int) -> np.ndarray:
    """Seconds of a solver with a serial share, with 5 % of noise."""
    noise = np.random.default_rng(seed).standard_normal(len(RANKS))
    return (0.2 + 30 / RANKS + 0.01 * np.log2(RANKS)) * (1 + 0.05 * noise)


def plain_loss(hypothesis: tuple[tuple[float, float], ...], y: np.ndarray) -> float:
    """Leave-one-out SMAPE, fit by fit."""
    columns = np.column_stack([RANKS**i * np.log2(RANKS) ** j for i, j in hypothesis])
    columns /= np.abs(columns).max(axis=0)
    losses = []
    for test in range(len(RANKS)):
        train = np.arange(len(RANKS)) != test
        model = LinearRegression(**EXACT).fit(columns[train], y[train])
        losses.append(float(smape(y[[test]], model.predict(columns[[test]]))))
    return float(np.mean(losses))


def run(n_terms: int, every: int, repeats: int, seed: int) -> dict[str, object]:
    """Time both searches on the same measurements."""
    seconds, count = [], math.comb(len(TERMS), n_terms)
    for each in range(repeats):
        y = measured(each)
        begin = time.process_time()
        PMNFRegressor(n_terms=n_terms).fit(RANKS, y)
        seconds.append(time.process_time() - begin)
    y = measured(seed)
    model = PMNFRegressor(n_terms=n_terms).fit(RANKS, y)
    begin = time.process_time()
    tried = 0
    best: tuple[float, tuple[tuple[float, float], ...]] = (math.inf, ())
    for hypothesis in itertools.islice(itertools.combinations(TERMS, n_terms), 0, None, every):
        best = min(best, (plain_loss(hypothesis, y), hypothesis), key=lambda pair: pair[0])
        tried += 1
    plain = time.process_time() - begin
    found = tuple(map(tuple, model.formula_.exponents[1:, 0].tolist()))
    if every == 1 and found != best[1]:
        raise SystemExit(f"different winners: {found} and {best[1]}")
    if model.loss_ > best[0] * (1 + 1e-9):
        raise SystemExit(f"the plain loop found a lower loss: {best[0]} instead of {model.loss_}")
    return {
        "terms": n_terms,
        "hypotheses": count,
        "per_cpu_second": count / float(np.median(seconds)),
        "least_per_cpu_second": count / max(seconds),
        "plain_per_cpu_second": tried / plain,
        "plain_hypotheses": tried,
        "winner": found,
        "loss": model.loss_,
    }


def main() -> None:
    """Print one line for each number of terms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="searches that are timed")
    parser.add_argument(
        "--every",
        type=int,
        nargs=2,
        default=[1, 50],
        help="plain loop: every so many hypotheses of 2 and of 3 terms",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the measurements that both are compared on")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    # The first search imports and allocates.
    PMNFRegressor().fit(RANKS, measured(0))
    with threadpool_limits(1):
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Time, compare and print."""
    for n_terms, every in zip((2, 3), arguments.every, strict=True):
        result = run(n_terms, every, arguments.repeats, arguments.seed)
        if arguments.json:
            print(json.dumps(result))
        else:
            print(
                f"n = {n_terms}: {result['hypotheses']:,} hypotheses, {result['per_cpu_second']:,.0f} per CPU second "
                f"(slowest search {result['least_per_cpu_second']:,.0f}); plain loop "
                f"{result['plain_per_cpu_second']:,.0f}; winner {result['winner']}, SMAPE {result['loss']:.4f}"
            )


if __name__ == "__main__":
    main()
