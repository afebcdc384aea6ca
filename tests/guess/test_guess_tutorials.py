"""First guesses on libprecice, on tutorials of preCICE and of this project: fewer iterations, the same results.

Iterations without a guess are the same in every run. With ``auto`` they differ by a few, as predictors learn less often
on a busy machine.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from first_guess_parts.cases import CASES
from first_guess_parts.run import measure

# By how many more iterations than without a guess may be taken.
MOST = 1.03

pytestmark = pytest.mark.precice
once = functools.cache(measure)


@pytest.mark.tutorials
@pytest.mark.parametrize(("case", "most"), [("tube-1d", 520), ("tube-1d-61", 510)])
def test_elastic_tube_takes_far_fewer_iterations(case: str, most: int) -> None:
    run = once(CASES[case], "auto")
    assert len(run.iterations) == 100
    assert run.converged.all()
    assert run.total <= most


@pytest.mark.tutorials
@pytest.mark.slow("a run with small limits")
def test_results_are_as_near_to_those_of_small_limits() -> None:
    """Windows of fewer iterations end less far below their limits."""
    reference = measure(CASES["tube-1d"], limit=1e-8)
    assert reference.converged.all()
    without = once(CASES["tube-1d"], "none").distances(reference)
    assert set(without) == {"velocity", "pressure", "diameter"}
    for name, distance in once(CASES["tube-1d"], "auto").distances(reference).items():
        assert 0.0 < without[name] < 1e-5, name
        assert distance <= 2.0 * without[name], name


@pytest.mark.mpi
@pytest.mark.slow("five ranks that wait for each other by spinning")
def test_ranks_that_predict_each_for_itself_take_no_more_iterations() -> None:
    run, guessed = (measure(CASES["tube-2+3"], guess) for guess in ("none", "auto"))
    assert guessed.converged.all()
    # Of so few windows, the first trial alone makes more than 3 %.
    assert guessed.total <= 1.1 * run.total


SLOW = pytest.mark.slow("long runs with every scheme and acceleration")
CASES_BOTH = [
    *[("oscillator", scheme, kind) for scheme in ("serial", "parallel") for kind in ("IQN-ILS", "IQN-IMVJ")],
    # The oscillator's own limits are near rounding errors, of which Aitken's factor would be made.
    *[("oscillator-1e-8", scheme, "aitken") for scheme in ("serial", "parallel")],
    pytest.param("tube-1d", "serial", "IQN-ILS", marks=SLOW),
    *[
        pytest.param("tube", scheme, kind, marks=SLOW)
        for scheme, kind in (("serial", "IQN-ILS"), ("parallel", "IQN-IMVJ"), ("serial", "aitken"))
    ],
]


@pytest.mark.tutorials
@pytest.mark.parametrize(("case", "scheme", "acceleration"), CASES_BOTH)
def test_auto_is_never_worse(case: str, scheme: str, acceleration: str) -> None:
    run, guessed = (measure(CASES[case], guess, scheme, acceleration) for guess in ("none", "auto"))
    assert guessed.converged.sum() >= run.converged.sum()
    assert guessed.total <= MOST * run.total
