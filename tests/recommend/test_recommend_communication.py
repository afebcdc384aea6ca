"""Time in MPI that was recorded reaches the model that keeps communication apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coupled_runs import coupled_run

from precice_lb.dataset import CoupledRun, measurements_from_runs
from precice_lb.recommend import recommend_split

ITERATIONS = np.array([2.0, 3.0] * 6)
PER_WINDOW = ITERATIONS[1:].mean()


def run(ranks: int, *, known: bool = True) -> CoupledRun:
    """A run in which A computes 8/p s and its busiest rank communicates 2/p^(2/3) s in every iteration."""
    sent = 2.0 * ranks ** (-2 / 3)
    own = {"A": np.full(12, 8.0 / ranks + sent), "B": np.full(12, 4.0 / ranks)}
    found = coupled_run(f"{ranks}", {"A": ranks, "B": ranks}, own, ITERATIONS, serial=False)
    # Others wait for it, within MPI too.
    spent = sent * PER_WINDOW * (1.0 + np.arange(ranks) / ranks) if known else np.full(ranks, np.nan)
    return replace(found, participants=found.participants | {"A": replace(found.participants["A"], rank_mpi=spent)})


def test_communication_of_runs_is_what_the_busiest_rank_spends_in_mpi() -> None:
    found = measurements_from_runs([run(8), run(2), run(4, known=False)])
    per_iteration = found.frames["A"].communication / found.iterations["A"]
    np.testing.assert_allclose(per_iteration, [2.0 * 2 ** (-2 / 3), np.nan, 2.0 * 8 ** (-2 / 3)])
    assert np.isnan(found.frames["B"].communication).all()


def test_the_factorised_model_of_a_recommendation_has_it() -> None:
    runs = [run(ranks) for ranks in (2, 4, 8)]
    known = recommend_split(measurements_from_runs(runs), 12, learner="factorized").models["A"].formula_.coefficients
    unknown = measurements_from_runs([run(ranks, known=False) for ranks in (2, 4, 8)])
    blind = recommend_split(unknown, 12, learner="factorized").models["A"].formula_.coefficients
    factor = measurements_from_runs(runs).iterations["A"]
    assert known[1] / factor == pytest.approx(2.0, rel=0.1)
    assert abs(np.log(blind[1] / factor / 2.0)) > abs(np.log(known[1] / factor / 2.0))
