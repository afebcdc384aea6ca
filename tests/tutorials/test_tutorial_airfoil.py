"""The airfoil tutorial: its pores and blocks, and coupled runs against one domain and on partitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from tutorial_helpers import COUPLED, assert_same_fields, couple_copy, tutorial_modules

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich

WINDOWS = 50
POROUS = "--pores 40"
PARTITION = (np.arange(96) // 5) % 3  # of the inner domain's blocks: those of a rank lie all over it

case, pores, reference = tutorial_modules("airfoil", "case", "pores", "reference")


@pytest.mark.mpi
@pytest.mark.slow("the pulse does the same")
def test_fields_do_not_depend_on_the_partition(mpiexec, tmp_path):
    np.savetxt(tmp_path / "partition.txt", PARTITION, fmt="%d")
    solver, there, fields = f"inner-python {POROUS}", tmp_path / "3", []
    for count, more in ((1, ""), (3, f" --partition {tmp_path}/partition.txt")):
        solvers = (solver + more, *COUPLED["airfoil"].solvers[1:])
        options = {"windows": 4, "record": True, "solvers": solvers}
        fields.append(couple_copy(mpiexec, tmp_path / f"{count}", "airfoil", (count, 1, 1), **options))
    plain, fields = fields
    assert_same_fields(fields, plain, 1e-12)
    assert np.abs(plain[0]["velocity"] - case.BACKGROUND[1]).max() > 0.01  # the airfoil has begun to act
    scheme = case.build_scheme("Inner", coarsen=2)
    porous = np.bincount(PARTITION, case.Airfoil(scheme.domain, scheme.equations).cells_per_block)
    (run,) = load_runs([there], complete=enrich)
    held = run.participants["Inner"].rank_counts
    np.testing.assert_array_equal(held["porous"], porous)
    np.testing.assert_array_equal(held["fluid"], 36 * np.bincount(PARTITION) - porous)


def test_pores_slow_the_fluid_by_their_law():
    cells, speed, times = np.array([[3, 4], [5, 4], [5, 6]]), np.array([0.0, 0.1, 0.35]), np.array([0.5, 1.0, 2.0])
    left = pores.Pores(cells, 50).left(speed, times)
    for cell, start, time, share in zip(cells.tolist(), speed, times, left, strict=True):
        diameters = np.exp(pores.SPREAD * np.random.default_rng(cell).standard_normal(50))

        def step(after, d, start=start, time=time):  # zero for the speed after an implicit step in a pore
            return after - start + time * (after / d**2 + pores.TURBULENT * after**1.75 / d**1.25)

        after = [brentq(step, 0.0, 1.0, args=(d,)) for d in diameters]
        assert start * share == pytest.approx(np.average(after, weights=diameters**2), abs=1e-11)
    alone = pores.Pores(cells[1:2], 50).left(speed[1:2], times[1:2])
    np.testing.assert_array_equal(alone, left[1:2])  # whatever other cells there are


@pytest.mark.mpi
@pytest.mark.slow("the elastic tube is compared with one system too")
def test_coupled_fields_are_those_of_one_domain(on_one_rank):
    fields = dict(zip(case.PARTS, on_one_rank("airfoil")[1], strict=True))
    scheme = reference.build_reference(coarsen=2, box="Middle")  # sound has not come to its edge yet
    airfoil = case.Airfoil(scheme.domain, scheme.equations)
    forces = []
    for window in range(WINDOWS):
        case.advance(scheme, [airfoil], 0.02 * window, 0.02)
        forces.append(airfoil.force / (0.5 * case.MACH**2))
    drag, lift = np.array(forces).T
    np.testing.assert_allclose(fields["Inner"]["drag"], drag, rtol=0.0, atol=1e-5)
    np.testing.assert_allclose(fields["Inner"]["lift"], lift, rtol=0.0, atol=1e-5)
    own = scheme.equations.primitive(scheme.domain.state).reshape(4, -1)
    for name in ("Inner", "Middle"):
        field = fields[name]
        mine = np.stack([field["x"].ravel(), field["y"].ravel()], axis=1)
        found = scheme.domain.find(mine)
        order = np.lexsort(np.round(scheme.domain.centres.reshape(-1, 2)[found].T, 6))
        error = field["pressure"].ravel()[np.lexsort(np.round(mine.T, 6))] - own[3, found][order]
        wave = np.abs(field["pressure"] - case.BACKGROUND[3]).max()
        assert np.abs(error).max() < 0.05 * wave, name
