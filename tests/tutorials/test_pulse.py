"""The pulse tutorial: its meshes, its restart files, and coupled runs against the exact solution and its laws."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from tutorial_helpers import TUTORIALS, chain_of_study, couple_copy, tutorial_modules

PULSE = TUTORIALS / "pulse"

acoustics, domains, plot = tutorial_modules("pulse", "acoustics", "domains", "plot")


REWRITTEN = """
import itertools
import pulse
from acoustics import Domain
from domains import build_mesh

domain = Domain(build_mesh("Inner"), pulse.MPI.COMM_WORLD)
for window in itertools.count():
    domain.state[...] = window
    pulse.write_restart("inner.h5", domain, 0.01 * window, window)
    if window == 0:
        print("written", flush=True)
"""


@pytest.mark.slow("100 kills")
def test_a_kill_leaves_a_whole_restart_file(tmp_path):
    (tmp_path / "rewrite.py").write_text(REWRITTEN)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PULSE / 'solver-python'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-m", "precice_lb", "run", "rewrite.py"]
    moments, cut_short = random.Random(1), 0
    for _ in range(100):
        variables = {**environment, "PRECICE_LB_BACKEND": "embedded", "PRECICE_LB_RECORD": "0"}
        with subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"written\n"
            time.sleep(moments.uniform(0.0, 0.1))
            process.kill()
        with h5py.File(tmp_path / "inner.h5") as file:
            assert (file["state"][:] == file.attrs["windows"]).all()
        cut_short += (tmp_path / "inner.h5.new").exists()
        (tmp_path / "inner.h5.new").unlink(missing_ok=True)
    assert cut_short


@pytest.mark.mpi
def test_the_coupled_pulse_stays_symmetric_and_close_to_the_exact_one(on_one_rank):
    for fields in on_one_rank("pulse")[1]:
        assert float(fields["time"]) == pytest.approx(0.6)
        x, y, p = (fields[key].ravel() for key in ("x", "y", "pressure"))
        u, v = (component.ravel() for component in fields["velocity"])
        for mirrored in [(-x, y, p, -u, v), (x, -y, p, u, -v), (y, x, p, v, u)]:
            order, image = np.lexsort(np.round([x, y], 9)), np.lexsort(np.round(mirrored[:2], 9))
            for mine, theirs in zip((x, y, p, u, v), mirrored, strict=True):
                np.testing.assert_allclose(mine[order], theirs[image], rtol=0.0, atol=1e-10)
        # The pulse was 1 high; the interface is off by a time window and half a vertex distance.
        error = np.abs(p - plot.exact_pressure(np.hypot(x, y), 0.6)).max()
        assert error < 0.01 < 0.1 < np.abs(p).max()


@pytest.mark.mpi
@pytest.mark.slow("a chain of minutes")
def test_the_chain_ends_as_one_run_and_near_the_optimum_of_the_laws(mpiexec, tmp_path):
    from emulation import read_laws

    segments, case = chain_of_study("pulse", tmp_path / "chain")
    assert sum(segment["windows"] for segment in segments) == 150
    laws = read_laws(PULSE / "law.json")
    costs = [max(laws[name].seconds(ranks) for name, ranks in each["split"].items()) for each in segments]
    assert costs[-1] < 1.1 * 0.2018 < 0.25 * costs[0]
    instant = {"serial": 1e-6, "work": 0.0, "surface": 0.0, "logarithmic": 0.0}
    (tmp_path / "law.json").write_text(json.dumps({"Inner": instant, "Outer": instant}))
    arguments = ("--load", "emulated", "--law", str(tmp_path / "law.json"))
    one = couple_copy(mpiexec, tmp_path / "one", "pulse", (1, 1), windows=150, arguments=arguments)
    for name, fields in zip(("inner", "outer"), one, strict=True):
        with h5py.File(case / f"{name}-python" / "restart.h5") as file:
            state = file["state"][:]
        np.testing.assert_allclose(state[0], fields["pressure"], rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(state[1:], fields["velocity"], rtol=0.0, atol=1e-10)
