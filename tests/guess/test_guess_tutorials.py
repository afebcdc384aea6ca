"""First guesses on libprecice, on tutorials of preCICE and of this project: fewer iterations, the same results.

Iterations without a guess are the same in every run. With ``auto`` they differ by a few, as predictors learn less often
on a busy machine.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from first_guess_parts.cases import CASES
from first_guess_parts.run import Run, measure

# By how many more iterations than without a guess may be taken.
MOST = 1.03

pytestmark = pytest.mark.precice
needs_tutorials = pytest.mark.skipif(
    "PRECICE_TUTORIALS" not in os.environ, reason="PRECICE_TUTORIALS does not name a directory with preCICE's tutorials"
)

once = functools.cache(measure)


@needs_tutorials
@pytest.mark.parametrize(("case", "most"), [("tube-1d", 520), ("tube-1d-61", 510)])
def test_elastic_tube_takes_far_fewer_iterations(case: str, most: int) -> None:
    run = once(CASES[case], "auto")
    assert len(run.iterations) == 100
    assert run.converged.all()
    assert run.total <= most


@needs_tutorials
def test_inflow_of_the_thesis_takes_three_iterations() -> None:
    run = measure(CASES["tube-1d-thesis"], "auto")
    assert run.converged.all()
    assert run.late <= 3.3


@needs_tutorials
@pytest.mark.slow("a run with small limits")
def test_results_are_as_near_to_those_of_small_limits() -> None:
    """Windows of fewer iterations end less far below their limits, for which half the limits make up."""
    reference = measure(CASES["tube-1d"], limit=1e-8)
    assert reference.converged.all()
    without = once(CASES["tube-1d"], "none").distances(reference)
    halved = measure(CASES["tube-1d"], "auto", factor=0.5)
    assert halved.total <= 520
    assert set(without) == {"velocity", "pressure", "diameter"}
    for guessed, times in ((once(CASES["tube-1d"], "auto"), 2.0), (halved, 1.0)):
        for name, distance in guessed.distances(reference).items():
            assert 0.0 < without[name] < 1e-5, name
            assert distance <= times * without[name], name


@pytest.mark.mpi
@pytest.mark.slow("five ranks that wait for each other by spinning")
def test_ranks_that_predict_each_for_itself_take_no_more_iterations() -> None:
    run, guessed = (measure(CASES["tube-2+3"], guess) for guess in ("none", "auto"))
    assert guessed.converged.all()
    # Of so few windows, the first trial alone makes more than 3 %.
    assert guessed.total <= 1.1 * run.total


def _compared(case: str, scheme: str, acceleration: str) -> tuple[Run, Run]:
    run, guessed = (measure(CASES[case], guess, scheme, acceleration) for guess in ("none", "auto"))
    assert guessed.converged.sum() >= run.converged.sum()
    return run, guessed


@needs_tutorials
@pytest.mark.parametrize("acceleration", ["IQN-ILS", "IQN-IMVJ"])
@pytest.mark.parametrize("scheme", ["serial", "parallel"])
def test_auto_is_never_worse_on_the_oscillator(scheme: str, acceleration: str) -> None:
    run, guessed = _compared("oscillator", scheme, acceleration)
    assert guessed.total <= MOST * run.total


@needs_tutorials
@pytest.mark.parametrize("scheme", ["serial", "parallel"])
def test_auto_is_never_worse_with_relaxation(scheme: str) -> None:
    """Its limits of 1e-10 are those of a single number, whose residuals are down to rounding."""
    run, guessed = _compared("oscillator", scheme, "aitken")
    assert guessed.total <= MOST * run.total


@pytest.mark.slow("long runs with every scheme and acceleration")
@pytest.mark.parametrize(
    ("case", "scheme", "acceleration"),
    [
        *[("tube", scheme, kind) for scheme in ("serial", "parallel") for kind in ("IQN-ILS", "IQN-IMVJ")],
        ("tube", "serial", "aitken"),
    ],
)
def test_auto_is_never_worse_on_the_elastic_tube(case: str, scheme: str, acceleration: str) -> None:
    run, guessed = _compared(case, scheme, acceleration)
    assert guessed.total <= MOST * run.total


@needs_tutorials
@pytest.mark.slow("long runs with every scheme and acceleration")
@pytest.mark.parametrize("acceleration", ["IQN-ILS", "IQN-IMVJ"])
def test_auto_is_never_worse_on_elastic_tube_1d(acceleration: str) -> None:
    """In a parallel scheme it does not converge without a guess either."""
    run, guessed = _compared("tube-1d", "serial", acceleration)
    assert guessed.total <= MOST * run.total


@needs_tutorials
@pytest.mark.slow("long runs with every scheme and acceleration")
@pytest.mark.skipif(
    "PRECICE_NUTILS_PYTHON" not in os.environ,
    reason="PRECICE_NUTILS_PYTHON does not name a Python with nutils 7, pyprecice and what precice_lb needs",
)
@pytest.mark.parametrize("scheme", ["serial", "parallel"])
def test_auto_is_never_worse_on_the_heat_of_nutils(scheme: str) -> None:
    run, guessed = _compared("heat", scheme, "IQN-ILS")
    assert guessed.total <= MOST * run.total
