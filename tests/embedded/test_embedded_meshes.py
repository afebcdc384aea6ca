"""Several provided and received meshes at each participant, on the embedded backend and, where it is, on libprecice."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CONFIGURATION = """<precice-configuration>
<log enabled="false" />
<data:scalar name="Heat" />
<data:vector name="Force" />
<data:scalar name="Load" />
<mesh name="A-Left" dimensions="2"><use-data name="Heat" /><use-data name="Load" /></mesh>
<mesh name="A-Right" dimensions="2"><use-data name="Force" /><use-data name="Heat" /></mesh>
<mesh name="B-Low" dimensions="2"><use-data name="Heat" /><use-data name="Load" /></mesh>
<mesh name="B-High" dimensions="2"><use-data name="Force" /><use-data name="Heat" /></mesh>
<participant name="A">
<provide-mesh name="A-Right" />
<provide-mesh name="A-Left" />
<receive-mesh name="B-Low" from="B" />
<write-data name="Heat" mesh="A-Left" />
<write-data name="Heat" mesh="A-Right" />
<read-data name="Force" mesh="A-Right" />
<read-data name="Load" mesh="A-Left" />
<mapping:nearest-neighbor direction="read" from="B-Low" to="A-Left" constraint="consistent" />
</participant>
<participant name="B">
<provide-mesh name="B-Low" />
<provide-mesh name="B-High" />
<receive-mesh name="A-Left" from="A" />
<receive-mesh name="A-Right" from="A" />
<write-data name="Load" mesh="B-Low" />
<read-data name="Heat" mesh="B-Low" />
<read-data name="Heat" mesh="B-High" />
<write-data name="Force" mesh="B-High" />
<mapping:nearest-neighbor direction="read" from="A-Left" to="B-Low" constraint="consistent" />
<mapping:nearest-neighbor direction="read" from="A-Right" to="B-High" constraint="consistent" />
<mapping:nearest-neighbor direction="write" from="B-High" to="A-Right" constraint="conservative" />
</participant>
<m2n:sockets acceptor="A" connector="B" exchange-directory="." />
<coupling-scheme:{kind}>
<participants first="A" second="B" />
<time-window-size value="0.1" />
<max-time-windows value="3" />
<exchange data="Heat" mesh="A-Left" from="A" to="B" />
<exchange data="Heat" mesh="A-Right" from="A" to="B" />
<exchange data="Load" mesh="B-Low" from="B" to="A" />
<exchange data="Force" mesh="A-Right" from="B" to="A" />
{iteration}
</coupling-scheme:{kind}>
</precice-configuration>
"""
MESHES = {"A": ("A-Left", "A-Right"), "B": ("B-Low", "B-High")}
WRITES = {"A": [("A-Left", "Heat"), ("A-Right", "Heat")], "B": [("B-Low", "Load"), ("B-High", "Force")]}
READS = {"A": [("A-Left", "Load"), ("A-Right", "Force")], "B": [("B-Low", "Heat"), ("B-High", "Heat")]}


def solver(backend: str, name: str) -> None:
    precice: Any = importlib.import_module("precice" if backend == "libprecice" else "precice_lb.embedded")
    participant = precice.Participant(name, "../precice-config.xml", 0, 1)
    places, ids = {}, {}
    for number, mesh in enumerate(MESHES[name]):
        places[mesh] = np.random.default_rng(number + len(name + mesh)).uniform(0, 1, (5 + 2 * number, 2))
        ids[mesh] = participant.set_mesh_vertices(mesh, places[mesh])
    participant.initialize()
    seen: list[Any] = []
    while participant.is_coupling_ongoing():
        participant.requires_writing_checkpoint()
        step = participant.get_max_time_step_size()
        feedback = 0.0
        for mesh, data in READS[name]:
            values = participant.read_data(mesh, data, ids[mesh], step)
            seen.append(values.tolist())
            feedback += float(values.sum())
        for mesh, data in WRITES[name]:
            values = np.sin(places[mesh] * 3.0) + 0.01 * feedback
            participant.write_data(mesh, data, ids[mesh], values if data == "Force" else values[:, 0])
        participant.advance(step)
        participant.requires_reading_checkpoint()
    participant.finalize()
    Path(f"{name}.json").write_text(json.dumps(seen))


def run(backend: str, directory: Path) -> dict[str, list[Any]]:
    directory.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    processes = [
        subprocess.Popen([sys.executable, __file__, backend, name], cwd=directory, env=environment) for name in "AB"
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    return {name: json.loads((directory / f"{name}.json").read_text()) for name in "AB"}


@pytest.mark.precice
@pytest.mark.parametrize("kind", ["parallel-explicit", "serial-implicit"])
def test_several_meshes_as_on_libprecice(kind: str, tmp_path: Path) -> None:
    iteration = '<max-iterations value="3" />' if kind.endswith("implicit") else ""
    (tmp_path / "precice-config.xml").write_text(CONFIGURATION.format(kind=kind, iteration=iteration))
    expected, found = (run(backend, tmp_path / backend) for backend in ("libprecice", "embedded"))
    for name in "AB":
        assert len(found[name]) == len(expected[name]) >= 6
        for one, other in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        assert np.abs(expected[name][-1]).max() > 0.1


if __name__ == "__main__":
    solver(sys.argv[1], sys.argv[2])
