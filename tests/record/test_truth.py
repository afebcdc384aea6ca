"""Compute time and wait per time window of sleeping solvers are what was planted.

Exactly so on an emulated clock. With real sleep and libprecice they are in the window that other programs disturbed
least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
# Half of the shortest planted wait, with real sleep.
REAL = 15 * MS
# With libprecice, whose clock cannot be emulated.
compares_real_times = pytest.mark.slow("compares real times with planted ones")
LIBPRECICE = pytest.param("libprecice", marks=[pytest.mark.precice, pytest.mark.alone, compares_real_times])


def in_turn(values: Sequence[float]) -> NDArray[np.float64]:
    """Values of all windows but the first and the last one."""
    return np.array([values[window % len(values)] for window in range(2, WINDOWS)], dtype=float)


def check(
    stores: Path, schemes: Sequence[tuple[str, str]], roles: Mapping[str, Role], seconds: Sequence[float], backend: str
) -> None:
    """Compare a case whose windows took these seconds in turn, all but the first and the last one."""
    (coupled,) = load_runs([stores], complete=enrich)
    assert set(coupled.participants) == set(roles)
    iterating = {name for kind, names in schemes if not kind.endswith("explicit") for name in names}
    for name, measured in coupled.participants.items():
        assert measured.windows.tolist() == list(range(1, WINDOWS + 1))
        assert measured.compute_measured
        role, window = roles[name], in_turn(seconds)
        repeats = in_turn(role.iterations if name in iterating else [1])
        work = max(role.seconds) * role.subcycles * repeats
        assert measured.iterations[1:-1].tolist() == repeats.tolist()
        compute, wait = measured.compute_seconds[1:-1], measured.wait_seconds[1:-1]
        if backend == "emulated":
            np.testing.assert_allclose(compute, work, atol=EXACT, err_msg=name)
            # Chains need another window to find their rhythm.
            np.testing.assert_allclose(wait[1:], (window - work)[1:], atol=EXACT, err_msg=name)
        else:
            assert (compute >= work - MS).all(), name
            assert min(compute - work) < REAL, name
            # The rest of a window is mapping and preCICE's own work.
            assert min(abs(compute + wait - window)) < REAL, name


def roles_of(*seconds: float, **iterations: Sequence[int]) -> dict[str, Role]:
    """Participants A, B, ... that take so many milliseconds in each iteration, and iterate so often, in turn."""
    return {
        name: Role([MS * cost], iterations=iterations.get(name, (1,)))
        for name, cost in zip("ABC", seconds, strict=False)
    }


PARALLEL, SERIAL, IMPLICIT = ("parallel-explicit", "AB"), ("serial-explicit", "AB"), ("serial-implicit", "AB")
CHAIN, TWICE = roles_of(40, 30, 60), roles_of(40, 20, 50, A=[2], B=[2])
VARYING = roles_of(20, 40, A=[2, 3, 4], B=[2, 3, 4])
PLANTED: dict[str, tuple[list[tuple[str, str]], dict[str, Role], list[int]]] = {
    "A waits": ([PARALLEL], roles_of(20, 50), [50]),
    "B waits": ([PARALLEL], roles_of(50, 20), [50]),
    "serial": ([SERIAL], roles_of(20, 50), [70]),
    "subcycles belong to their window": ([PARALLEL], {"A": Role([15 * MS], subcycles=4), "B": Role([90 * MS])}, [90]),
    "serial, other iterations in each window": ([IMPLICIT], VARYING, [120, 180, 240]),
    "parallel, other iterations in each window": ([("parallel-implicit", "AB")], VARYING, [80, 120, 160]),
    "serial chain: B and the slower of A and C": ([SERIAL, ("serial-explicit", "BC")], CHAIN, [90]),
    "parallel chain: the slowest": ([PARALLEL, ("parallel-explicit", "BC")], CHAIN, [60]),
    # A and B iterate twice, C computes once per window.
    "implicit and parallel": ([IMPLICIT, ("parallel-explicit", "BC")], TWICE, [120]),
    "implicit and serial": ([IMPLICIT, ("serial-explicit", "BC")], TWICE, [170]),
    "parallel both": ([("parallel-implicit", "AB"), ("parallel-explicit", "BC")], TWICE, [80]),
    "multi": ([("multi", "BAC")], roles_of(20, 30, 50, A=[2, 3], B=[2, 3], C=[2, 3]), [100, 150]),
}


INITIAL = ["serial-explicit", "serial-implicit"]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Stores of all these cases on the emulated clock, and of two windows of those whose first one is waited for."""
    place, cases = tmp_path_factory.mktemp("emulated"), {}
    for name, (schemes, roles, _) in PLANTED.items():
        cases[configuration(place / name, "".join(roles), schemes, WINDOWS)] = roles
    for kind in INITIAL:
        cases[configuration(place / kind, "AB", [(kind, "AB")], 2)] = roles_of(600, 20, A=[2], B=[2])
    return dict(zip([*PLANTED, *INITIAL], run(cases, "emulated"), strict=True))


@pytest.mark.parametrize("backend", ["emulated", LIBPRECICE])
@pytest.mark.parametrize("name", PLANTED)
def test_planted_work_and_waits_are_found(
    tmp_path: Path, name: str, backend: str, request: pytest.FixtureRequest
) -> None:
    schemes, roles, milliseconds = PLANTED[name]
    stores = request.getfixturevalue(backend)[name] if backend == "emulated" else recorded(tmp_path, schemes, roles)
    check(stores, schemes, roles, [MS * window for window in milliseconds], backend)


def recorded(directory: Path, schemes: Sequence[tuple[str, str]], roles: Mapping[str, Role], mpiexec: str = "") -> Path:
    """Record a case with libprecice; its stores."""
    return run({configuration(directory, "".join(roles), schemes, WINDOWS): roles}, "libprecice", mpiexec)[0]


@pytest.mark.parametrize("kind", INITIAL)
def test_the_wait_inside_initialize_is_for_the_first_window(emulated: dict[str, Path], kind: str) -> None:
    """The second participant of a serial scheme never waits after its last window, yet waited for its data."""
    (coupled,) = load_runs([emulated[kind]], complete=enrich)
    second = coupled.participants["B"]
    assert second.windows.tolist() == [1, 2]
    np.testing.assert_allclose(second.wait_seconds, 600 * MS * second.iterations, atol=EXACT)
    np.testing.assert_allclose(second.compute_seconds, 20 * MS * second.iterations, atol=EXACT)


@pytest.mark.precice
@pytest.mark.alone
@compares_real_times
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("kind", "window"),
    [("parallel-explicit", 150), ("serial-explicit", 200), ("parallel-implicit", 300), ("serial-implicit", 400)],
)
@pytest.mark.parametrize("collective", ["before", "after"])
def test_ranks_off_the_interface_wait_in_a_collective(
    tmp_path: Path, mpiexec: str, kind: str, window: int, collective: str
) -> None:
    """Their wait looks like solve: the participant's wait is that of the one rank that receives data."""
    # Ranks that wait for preCICE's word whether the iteration converged keep their processors busy.
    ranks = 2 if kind.endswith("implicit") else 3
    a = Role([50 * MS] * ranks, interface=[1], collective=collective, iterations=[2])
    roles = {"A": a, "B": Role([150 * MS], iterations=[2])}
    stores = recorded(tmp_path, [(kind, "AB")], roles, mpiexec)
    check(stores, [(kind, "AB")], roles, [window * MS], "libprecice")


@pytest.mark.precice
@pytest.mark.alone
@compares_real_times
@pytest.mark.mpi
def test_imbalance_inside_a_participant_is_no_wait_for_the_partner(tmp_path: Path, mpiexec: str) -> None:
    roles = {"A": Role([20 * MS, 50 * MS], collective="before after"), "B": Role([80 * MS])}
    check(recorded(tmp_path, [PARALLEL], roles, mpiexec), [PARALLEL], roles, [80 * MS], "libprecice")
