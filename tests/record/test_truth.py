"""Compute time and wait per time window of sleeping solvers are what was planted.

Exactly so on an emulated clock. With real sleep and libprecice they are at least that: a busy machine makes sleeps
longer, never shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from truth_helpers import Role, configuration, run

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

WINDOWS = 8
MS = 1e-3
# A message takes a microsecond on the emulated clock.
EXACT = 20e-6
LIBPRECICE = pytest.param("libprecice", marks=pytest.mark.precice)
BACKENDS = ["emulated", LIBPRECICE]

Seconds = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def always(seconds: float) -> Seconds:
    """Seconds per time window that do not depend on its coupling iterations."""
    return lambda iterations: np.full(len(iterations), seconds)


def check(
    directory: Path,
    schemes: Sequence[tuple[str, str]],
    roles: Mapping[str, Role],
    own: Mapping[str, float],
    period: Seconds,
    *,
    backend: str = "libprecice",
    implicit: str = "",
    mpiexec: str | None = None,
) -> None:
    """Run a case and compare all windows with what was planted, but the first and the last one.

    ``own`` is seconds per iteration, ``period`` makes seconds per window of the iterations that the participants in
    ``implicit`` do.
    """
    text = configuration(directory, "".join(roles), schemes, WINDOWS)
    stores = run(directory, text, roles, backend=backend, mpiexec=mpiexec)
    (coupled,) = load_runs([stores], complete=enrich)
    assert set(coupled.participants) == set(roles)
    for name, measured in coupled.participants.items():
        assert measured.windows.tolist() == list(range(1, WINDOWS + 1))
        assert measured.compute_measured
        plan = roles[name].iterations
        iterations = np.array([plan[window % len(plan)] for window in range(2, WINDOWS)], dtype=float)
        repeats = iterations if name in implicit else np.ones(len(iterations))
        assert measured.iterations[1:-1].tolist() == repeats.tolist()
        compute, wait = measured.compute_seconds[1:-1], measured.wait_seconds[1:-1]
        if backend == "emulated":
            np.testing.assert_allclose(compute, own[name] * repeats, atol=EXACT, err_msg=name)
            # Chains need another window to find their rhythm.
            expected = period(iterations) - own[name] * repeats
            np.testing.assert_allclose(wait[1:], expected[1:], atol=EXACT, err_msg=name)
        else:
            assert (compute >= own[name] * repeats - MS).all(), name
            # The rest of a window is mapping and preCICE's own work.
            assert (compute + wait >= 0.9 * period(iterations))[1:].all(), name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("a", "b"), [(20 * MS, 50 * MS), (50 * MS, 20 * MS)])
def test_parallel_explicit(tmp_path: Path, backend: str, a: float, b: float) -> None:
    roles = {"A": Role([a]), "B": Role([b])}
    check(tmp_path, [("parallel-explicit", "AB")], roles, {"A": a, "B": b}, always(max(a, b)), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_serial_explicit(tmp_path: Path, backend: str) -> None:
    own = {"A": 20 * MS, "B": 50 * MS}
    roles = {name: Role([cost]) for name, cost in own.items()}
    check(tmp_path, [("serial-explicit", "AB")], roles, own, always(70 * MS), backend=backend)


@pytest.mark.parametrize("kind", ["serial-explicit", "serial-implicit"])
def test_the_wait_inside_initialize_is_for_the_first_window(tmp_path: Path, kind: str) -> None:
    """The second participant of a serial scheme never waits after its last window, yet waited for its data."""
    roles = {"A": Role([600 * MS], iterations=[2]), "B": Role([20 * MS], iterations=[2])}
    stores = run(tmp_path, configuration(tmp_path, "AB", [(kind, "AB")], 2), roles, backend="emulated")
    (coupled,) = load_runs([stores], complete=enrich)
    second = coupled.participants["B"]
    assert second.windows.tolist() == [1, 2]
    np.testing.assert_allclose(second.wait_seconds, 600 * MS * second.iterations, atol=EXACT)
    np.testing.assert_allclose(second.compute_seconds, 20 * MS * second.iterations, atol=EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_subcycles_belong_to_their_window(tmp_path: Path, backend: str) -> None:
    roles = {"A": Role([15 * MS], subcycles=4), "B": Role([90 * MS])}
    own = {"A": 60 * MS, "B": 90 * MS}
    check(tmp_path, [("parallel-explicit", "AB")], roles, own, always(90 * MS), backend=backend)


@pytest.mark.parametrize("backend", ["emulated", LIBPRECICE])
@pytest.mark.parametrize(
    ("kind", "period"), [("serial-implicit", lambda k: 60 * MS * k), ("parallel-implicit", lambda k: 40 * MS * k)]
)
def test_implicit(tmp_path: Path, backend: str, kind: str, period: Seconds) -> None:
    """The number of coupling iterations differs between windows."""
    own = {"A": 20 * MS, "B": 40 * MS}
    roles = {name: Role([cost], iterations=[2, 3, 4]) for name, cost in own.items()}
    check(tmp_path, [(kind, "AB")], roles, own, period, backend=backend, implicit="AB")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "seconds"), [("serial-explicit", 90 * MS), ("parallel-explicit", 60 * MS)])
def test_chain_of_three(tmp_path: Path, backend: str, kind: str, seconds: float) -> None:
    """Serial schemes take B and the slower of A and C, parallel ones the slowest."""
    own = {"A": 40 * MS, "B": 30 * MS, "C": 60 * MS}
    roles = {name: Role([cost]) for name, cost in own.items()}
    check(tmp_path, [(kind, "AB"), (kind, "BC")], roles, own, always(seconds), backend=backend)


@pytest.mark.parametrize("backend", ["emulated", LIBPRECICE])
@pytest.mark.parametrize(
    ("implicit", "explicit", "seconds"),
    [
        ("serial-implicit", "parallel-explicit", 120 * MS),
        ("serial-implicit", "serial-explicit", 170 * MS),
        ("parallel-implicit", "parallel-explicit", 80 * MS),
    ],
)
def test_composition_of_implicit_and_explicit(
    tmp_path: Path, backend: str, implicit: str, explicit: str, seconds: float
) -> None:
    """A and B iterate twice, C computes once per window."""
    roles = {"A": Role([40 * MS], iterations=[2]), "B": Role([20 * MS], iterations=[2]), "C": Role([50 * MS])}
    own = {"A": 40 * MS, "B": 20 * MS, "C": 50 * MS}
    schemes = [(implicit, "AB"), (explicit, "BC")]
    check(tmp_path, schemes, roles, own, always(seconds), backend=backend, implicit="AB")


@pytest.mark.parametrize("backend", ["emulated", LIBPRECICE])
def test_multi_coupling(tmp_path: Path, backend: str) -> None:
    own = {"A": 20 * MS, "B": 30 * MS, "C": 50 * MS}
    roles = {name: Role([cost], iterations=[2, 3]) for name, cost in own.items()}
    check(tmp_path, [("multi", "BAC")], roles, own, lambda k: 50 * MS * k, backend=backend, implicit="ABC")


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("kind", "period"),
    [
        ("parallel-explicit", always(150 * MS)),
        ("serial-explicit", always(200 * MS)),
        ("parallel-implicit", lambda k: 150 * MS * k),
        ("serial-implicit", lambda k: 200 * MS * k),
    ],
)
@pytest.mark.parametrize("collective", ["before", "after"])
def test_ranks_off_the_interface_wait_in_a_collective(
    tmp_path: Path, mpiexec: str, kind: str, period: Seconds, collective: str
) -> None:
    """Their wait looks like solve: the participant's wait is that of the one rank that receives data."""
    own = {"A": 50 * MS, "B": 150 * MS}
    implicit = "AB" if kind.endswith("implicit") else ""
    # Ranks that wait for preCICE's word whether the iteration converged keep their processors busy.
    ranks = 2 if implicit else 3
    roles = {
        "A": Role([own["A"]] * ranks, interface=[1], collective=collective, iterations=[2]),
        "B": Role([own["B"]], iterations=[2]),
    }
    check(tmp_path, [(kind, "AB")], roles, own, period, implicit=implicit, mpiexec=mpiexec)


@pytest.mark.precice
@pytest.mark.mpi
def test_imbalance_inside_a_participant_is_no_wait_for_the_partner(tmp_path: Path, mpiexec: str) -> None:
    own = {"A": 50 * MS, "B": 80 * MS}
    roles = {"A": Role([20 * MS, own["A"]], collective="before after"), "B": Role([own["B"]])}
    check(tmp_path, [("parallel-explicit", "AB")], roles, own, always(80 * MS), mpiexec=mpiexec)
