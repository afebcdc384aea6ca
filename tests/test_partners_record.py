"""Meshes of recorded runs: kept where asked for, read back, and never in the way of the run."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_helpers import assert_fine, run_pair

from precice_lb import embedded
from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.partners import partners_report, read_store_meshes
from precice_lb.record.backend import Backend
from precice_lb.record.participant import recording_class
from precice_lb.report.partners_files import write_partners_beside

CONFIGURATION = """<?xml version="1.0"?>
<precice-configuration>
  <data:scalar name="Heat"/>
  <mesh name="Hot" dimensions="2"><use-data name="Heat"/></mesh>
  <mesh name="Cold" dimensions="2"><use-data name="Heat"/></mesh>
  <participant name="Left"><provide-mesh name="Hot"/><write-data name="Heat" mesh="Hot"/></participant>
  <participant name="Right">
    <provide-mesh name="Cold"/><receive-mesh name="Hot" from="Left" api-access="true"/>
    <read-data name="Heat" mesh="Cold"/>
    <mapping:nearest-neighbor direction="read" from="Hot" to="Cold" constraint="consistent"/>
  </participant>
  <m2n:sockets acceptor="Left" connector="Right"/>
  <coupling-scheme:parallel-explicit>
    <participants first="Left" second="Right"/><max-time-windows value="1"/><time-window-size value="1"/>
    <exchange data="Heat" mesh="Hot" from="Left" to="Right"/>
  </coupling-scheme:parallel-explicit>
</precice-configuration>
"""


class Solver:
    """Stands for a backend's participant; it takes vertices as preCICE does."""

    timing_ns = (0, 0)

    def __init__(self, *arguments: Any) -> None:
        self.taken: list[Any] = []

    def set_mesh_vertex(self, mesh_name: str, position: Any) -> int:
        self.taken.append(position)
        return len(self.taken) - 1

    def set_mesh_vertices(self, mesh_name: str, positions: Any) -> Any:
        self.taken.extend(positions)
        return np.arange(len(positions))

    def set_mesh_access_region(self, mesh_name: str, bounding_box: Any) -> None:
        self.taken.append(bounding_box)

    def reset_mesh(self, mesh_name: str) -> None:
        self.taken.clear()

    def initialize(self) -> None:
        pass

    def advance(self, computed_timestep_length: float) -> None:
        pass

    def requires_reading_checkpoint(self) -> bool:
        return False

    def is_time_window_complete(self) -> bool:
        return True

    def start_profiling_section(self, event_name: str) -> None:
        pass

    def stop_last_profiling_section(self) -> None:
        pass

    def is_coupling_ongoing(self) -> bool:
        return False

    def finalize(self) -> None:
        pass


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "precice-config.xml").write_text(CONFIGURATION)
    monkeypatch.setenv("PRECICE_LB_DIR", str(tmp_path / "store"))
    backend = Backend(name="embedded", module=embedded, participant=Solver, reason=None)

    def make(who: str, rank: int, size: int) -> Any:
        return recording_class(backend)(who, str(tmp_path / "precice-config.xml"), rank, size)

    return make


def _run(start: Any, ranks: dict[str, int]) -> None:
    started = [(start(who, rank, size), who, rank) for who, size in ranks.items() for rank in range(size)]
    for participant, who, rank in started:
        if who == "Left" and rank != 1:
            assert participant.set_mesh_vertices("Hot", [[rank, 0.0], [rank + 0.5, 1.0]]).tolist() == [0, 1]
            assert participant.set_mesh_vertex("Hot", [rank, 2.0]) == 2
        if who == "Right":
            participant.set_mesh_vertices(mesh_name="Cold", positions=np.array([[rank, 0.5], [rank, 1.5]]))
            participant.set_mesh_access_region("Hot", [rank, rank + 1.0, 0.0, 3.0])
        participant.initialize()
    for participant, _, _ in started:
        participant.advance(1.0)
        participant.finalize()


@pytest.mark.mpi
@pytest.mark.parametrize("backend", ["embedded", pytest.param("libprecice", marks=pytest.mark.precice)])
def test_real_solvers_keep_their_meshes_and_their_results(tmp_path: Path, backend: str, mpiexec: str) -> None:
    options: dict[str, Any] = {"launch": [mpiexec, "-n", "2"], "arguments": ["2"], "PRECICE_LB_BACKEND": backend}
    assert_fine(run_pair(tmp_path / "with", **options, PRECICE_LB_MESHES="coordinates"))
    assert_fine(run_pair(tmp_path / "without", **options))
    for name in ("A-0.npy", "A-1.npy", "B-0.npy", "B-1.npy"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    configuration, meshes, _ = read_store_meshes([tmp_path / "with" / "precice-lb-store"])
    x = np.linspace(0.0, 1.0, 11)
    for mesh in meshes.values():
        assert mesh.counts.tolist() == [6, 5]
        assert mesh.points("")[:, 0].tolist() == [*x[::2], *x[1::2]]
    report = partners_report(configuration, meshes)
    # Even points on one rank, odd ones on the other: boxes overlap, but nobody needs what the other parity has.
    assert [len(found.level_1) for found in report.links] == [4, 4]
    assert [found.level_2.tolist() for found in report.links if found.level_2 is not None] == [[[0, 0], [1, 1]]] * 2


def test_coordinates_boxes_and_regions_come_back(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRECICE_LB_MESHES", "coordinates")
    _run(start, {"Left": 3, "Right": 2})
    configuration, meshes, regions = read_store_meshes([tmp_path / "store"])
    assert meshes["Hot"].counts.tolist() == [3, 0, 3]
    assert np.isnan(meshes["Hot"].boxes[1]).all()
    assert meshes["Hot"].boxes[2].tolist() == [[2.0, 2.5], [0.0, 2.0]]
    assert meshes["Hot"].points("").tolist()[:3] == [[0.0, 0.0], [0.5, 1.0], [0.0, 2.0]]
    assert regions["Hot"].tolist() == [[[0.0, 1.0], [0.0, 3.0]], [[1.0, 2.0], [0.0, 3.0]]]
    assert partners_report(configuration, meshes, regions).ranks == {"Left": 3, "Right": 2}
    assert main(["partners", str(tmp_path / "store")]) == 0
    assert "Hot: Left to Right" in capsys.readouterr().out


def test_merged_stores_keep_their_meshes(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECICE_LB_MESHES", "coordinates")
    _run(start, {"Left": 3, "Right": 2})
    _, before, _ = read_store_meshes([tmp_path / "store"])
    assert main(["merge", str(tmp_path / "store")]) == 0
    _, after, regions = read_store_meshes([tmp_path / "store"])
    assert list((tmp_path / "store").rglob("Left-0-3.h5")) == []
    assert after["Hot"].points("").tolist() == before["Hot"].points("").tolist()
    assert list(regions) == ["Hot"]


def test_boxes_alone_give_level_1(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECICE_LB_MESHES", "boxes")
    _run(start, {"Left": 3, "Right": 2})
    configuration, meshes, regions = read_store_meshes([tmp_path / "store"])
    (found,) = partners_report(configuration, meshes, regions).links
    assert found.level_2 is None
    assert len(found.level_1) > 0
    with pytest.raises(DataError, match="PRECICE_LB_MESHES=coordinates"):
        partners_report(configuration, meshes, ranks={"Left": 6})


def test_nothing_is_kept_or_wrapped_unless_asked_for(start: Any, tmp_path: Path) -> None:
    participant = start("Left", 0, 1)
    assert "set_mesh_vertices" not in vars(participant)
    participant.initialize()
    participant.finalize()
    assert list(tmp_path.rglob("*.npz")) == []
    with pytest.raises(DataError, match="PRECICE_LB_MESHES"):
        read_store_meshes([tmp_path / "store"])


def test_a_failure_is_one_warning_and_the_run_goes_on(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRECICE_LB_MESHES", "coordinates")
    participant = start("Left", 0, 1)
    participant.set_mesh_vertices("Hot", [["a", "b"]])
    monkeypatch.setattr(np, "savez", None)
    participant.initialize()
    participant.advance(1.0)
    participant.finalize()
    assert participant.taken == [["a", "b"]]
    assert capsys.readouterr().err.count("warning: meshes of this run are not recorded completely") == 2
    assert list(tmp_path.rglob("*.npz")) == []


def test_a_watched_participant_ends_with_its_last_name(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECICE_LB_MESHES", "boxes")
    participant = start("Left", 0, 1)
    participant.set_mesh_vertices("Hot", [[0.0, 0.0]])
    participant.reset_mesh("Hot")
    participant.initialize()
    weak = weakref.ref(participant)
    gc.disable()
    try:
        del participant
        assert weak() is None
    finally:
        gc.enable()


def test_a_missing_rank_and_a_damaged_file_are_one_error(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECICE_LB_MESHES", "boxes")
    _run(start, {"Left": 2, "Right": 1})
    file = next((tmp_path / "store").rglob("Left-1-2.npz"))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged"):
        read_store_meshes([tmp_path / "store"])
    file.with_suffix(".h5").unlink()
    with pytest.raises(DataError, match="none of rank 1"):
        read_store_meshes([tmp_path / "store"])


def test_a_recommendation_gets_the_partners_of_its_split_beside_it(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write_partners_beside([tmp_path, tmp_path / "table.csv"], {"Left": 2, "Right": 2}, tmp_path / "out") == []
    monkeypatch.setenv("PRECICE_LB_MESHES", "boxes")
    _run(start, {"Left": 3, "Right": 2})
    written = write_partners_beside([tmp_path / "store"], {"Left": 3, "Right": 2}, tmp_path / "out")
    assert {"partners.json", "partners.h5", "MPICH_RANK_ORDER"} <= {path.name for path in written}
    assert all(path.is_file() for path in written)
    capsys.readouterr()
    assert write_partners_beside([tmp_path / "store"], {"Left": 2, "Right": 3}, tmp_path / "other") == []
    assert capsys.readouterr().err.startswith("precice-lb: partner ranks are not reported: expected no access regions")
