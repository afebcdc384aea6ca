"""Several provided and received meshes at each participant, on the embedded backend and, where it is, on libprecice."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_helpers import environment, finish, start

DATA = Path(__file__).parents[1] / "data"
CONFIGURATION = (DATA / "configurations" / "two-meshes-each.xml.in").read_text(encoding="utf-8")
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
    commands = {name: [sys.executable, __file__, backend, name] for name in "AB"}
    ended = finish(start(directory, commands, dict.fromkeys("AB", environment())))
    assert {result.returncode for result in ended.values()} == {0}, ended
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
