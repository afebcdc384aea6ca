"""Meshes of recorded runs: boxes always, coordinates where asked for, and never in the way of the run."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_helpers import BACKENDS, StandIn, run_pair, stand_in
from report_helpers import falling, write_csv

from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import enrich, import_profiling
from precice_lb.partners import partners_report, read_store_meshes
from precice_lb.partners.sources import run_with_meshes
from precice_lb.partners.view import partners_of_split, partners_section, write_beside
from precice_lb.recommend import load_sources, recommend_split
from precice_lb.report import Evidence
from precice_lb.report.at_end import write_at_end
from precice_lb.report.blocks import Chart, Missing, Paragraph
from precice_lb.schedule import Schedule
from precice_lb.store import read_runs

_FILE = Path(__file__).parents[1] / "data" / "configurations" / "partners-regions.xml"
CONFIGURATION = _FILE.read_text(encoding="utf-8")


class Solver(StandIn):
    """Stands for a backend's participant; it takes vertices as preCICE does."""

    def __init__(self, *arguments: Any) -> None:
        self.taken: list[Any] = []

    def set_mesh_vertex(self, mesh_name: str, position: Any) -> int:
        self.taken.append(position)
        return len(self.taken) - 1

    def set_mesh_vertices(self, mesh_name: str, positions: Any) -> Any:
        self.taken.extend(positions)
        return np.arange(len(positions))

    def set_mesh_triangle(
        self, mesh_name: str, first_vertex_id: int, second_vertex_id: int, third_vertex_id: int
    ) -> None: ...

    def set_mesh_quads(self, mesh_name: str, vertices: Any) -> None: ...

    def set_mesh_access_region(self, mesh_name: str, bounding_box: Any) -> None: ...

    def reset_mesh(self, mesh_name: str) -> None: ...

    def is_time_window_complete(self) -> bool:
        return True


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "precice-config.xml").write_text(CONFIGURATION)
    monkeypatch.setenv("PRECICE_LB_DIR", str(tmp_path / "store"))
    return lambda who, rank, size: stand_in(Solver, who, str(tmp_path / "precice-config.xml"), rank, size)


def _run(start: Any, ranks: dict[str, int], *, with_regions: bool = True) -> None:
    started = {(who, rank): start(who, rank, size) for who, size in ranks.items() for rank in range(size)}
    for (who, rank), participant in started.items():
        if who == "Left" and rank != 1:
            assert participant.set_mesh_vertices("Hot", [[rank, 0.0], [rank + 0.5, 1.0]]).tolist() == [0, 1]
            assert participant.set_mesh_vertex("Hot", [rank, 2.0]) == 2
        if who == "Right":
            participant.set_mesh_vertices(mesh_name="Cold", positions=np.array([[rank, 0.5], [rank, 1.5]]))
            if with_regions:
                participant.set_mesh_access_region("Hot", [rank, rank + 1.0, 0.0, 3.0])
        participant.initialize()
    for participant in started.values():
        participant.advance(1.0)
        participant.finalize()


@pytest.fixture
def coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs keep where vertices are."""
    monkeypatch.setenv("PRECICE_LB_MESHES", "coordinates")


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
def test_real_solvers_keep_their_meshes_and_their_results(tmp_path: Path, backend: str, mpiexec: str) -> None:
    for place, setting in (("with", "coordinates"), ("without", "0")):
        run_pair(tmp_path / place, mpiexec=mpiexec, backend=backend, PRECICE_LB_MESHES=setting)
    for name in ("A-0.npy", "A-1.npy", "B-0.npy", "B-1.npy"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    configuration, meshes, _ = read_store_meshes([tmp_path / "with" / "precice-lb-store"])
    x = np.linspace(0.0, 1.0, 11)
    for mesh in meshes.values():
        assert mesh.counts.tolist() == [6, 5]
        assert mesh.points("")[:, 0].tolist() == [*x[::2], *x[1::2]]
    report = partners_report(configuration, meshes)
    # Even points on one rank, odd ones on the other: boxes overlap, but nobody needs what the other parity has.
    assert [len(result.level_1) for result in report.links] == [4, 4]
    assert [result.level_2.tolist() for result in report.links if result.level_2 is not None] == [[[0, 0], [1, 1]]] * 2
    with pytest.raises(DataError, match=r"without PRECICE_LB_MESHES=0$"):
        read_store_meshes([tmp_path / "without" / "precice-lb-store"])


def test_stores_that_were_imported_have_no_meshes_and_that_is_the_reason(tmp_path: Path) -> None:
    """Nobody set PRECICE_LB_MESHES=0 there."""
    profiles = Path(__file__).parents[1] / "data" / "profiling" / "fundamental"
    import_profiling([profiles], tmp_path / "store", configuration=profiles / "precice-config.xml")
    with pytest.raises(DataError, match="from preCICE's profiling files, which hold none; add <export:csv ") as no:
        read_store_meshes([tmp_path / "store"])
    assert "PRECICE_LB_MESHES" not in str(no.value)


def test_coordinates_boxes_and_regions_come_back(
    start: Any, tmp_path: Path, coordinates: None, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_boxes_are_kept_by_default_and_give_level_1(
    start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(start, {"Left": 3, "Right": 2})
    configuration, meshes, regions = read_store_meshes([tmp_path / "store"])
    (result,) = partners_report(configuration, meshes, regions).links
    assert result.level_2 is None
    assert len(result.level_1) > 0
    assert meshes["Hot"].counts.tolist() == [3, 0, 3]
    with pytest.raises(DataError, match="PRECICE_LB_MESHES=coordinates"):
        partners_report(configuration, meshes, ranks={"Left": 6})
    assert main(["partners", str(tmp_path / "store")]) == 0
    assert "record with PRECICE_LB_MESHES=coordinates" in " ".join(capsys.readouterr().out.split())


def test_cells_are_kept_with_coordinates_and_quads_become_triangles(
    start: Any, tmp_path: Path, coordinates: None
) -> None:
    started = [start("Left", rank, 2) for rank in range(2)]
    for rank, participant in enumerate(started):
        participant.set_mesh_vertices("Hot", np.array([[0, 0], [2, 0], [2, 1], [0.5, 1]]) + rank)
        participant.set_mesh_triangle("Hot", 0, 1, third_vertex_id=2)
        participant.set_mesh_quads("Hot", [[0, 1, 2, 3]])
        participant.initialize()
    cells = read_store_meshes([tmp_path / "store"])[1]["Hot"].cells
    assert list(cells) == ["triangles"]
    triangles = {tuple(sorted(triangle)) for triangle in cells["triangles"].tolist()}
    # The shorter diagonal is that from 1 to 3.
    assert triangles == {(0, 1, 2), (4, 5, 6), (0, 1, 3), (1, 2, 3), (4, 5, 7), (5, 6, 7)}


def test_many_single_vertices_and_a_reset(start: Any, tmp_path: Path, coordinates: None) -> None:
    participant = start("Left", 0, 1)
    participant.set_mesh_vertices("Hot", [[99.0, 99.0]])
    participant.set_mesh_vertex("Hot", [98.0, 98.0])
    participant.reset_mesh(b"Hot")
    position = np.zeros(2)
    for number in range(5000):
        position[:] = number, -number
        participant.set_mesh_vertex("Hot", position)
    participant.set_mesh_vertices("Hot", np.full((3, 2), 0.5))
    participant.set_mesh_vertices("Hot", np.empty((0, 2)))
    participant.initialize()
    participant.set_mesh_vertex("Hot", [1e9, 1e9])
    mesh = read_store_meshes([tmp_path / "store"])[1]["Hot"]
    assert mesh.counts.tolist() == [5003]
    assert mesh.boxes.tolist() == [[[0.0, 4999.0], [-4999.0, 0.5]]]
    assert mesh.points("")[[1, 4999, 5002]].tolist() == [[1.0, -1.0], [4999.0, -4999.0], [0.5, 0.5]]


def test_what_cannot_be_understood_is_one_warning_and_the_times_are_recorded(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    participant = start("Left", 0, 1)
    participant.set_mesh_vertices("Hot", [[0.0, 0.0]])
    participant.set_mesh_vertices("Hot", [["a", "b"]])
    participant.set_mesh_vertex("Hot", "ab")
    participant.initialize()
    participant.advance(1.0)
    participant.finalize()
    assert participant.taken == [[0.0, 0.0], ["a", "b"], "ab"]
    assert capsys.readouterr().err.count("warning: meshes of this run are not recorded") == 1
    ((group,),) = read_runs([tmp_path / "store"])
    assert len(group[0].advances) == 1
    assert len(group[0].rows("meshes")) == 0


def test_a_recorded_participant_ends_with_its_last_name(start: Any) -> None:
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


def test_what_is_missing_or_no_number_is_one_error_when_read(start: Any, tmp_path: Path) -> None:
    _run(start, {"Left": 2, "Right": 1})
    next((tmp_path / "store").rglob("Left-1-2.h5")).unlink()
    with pytest.raises(DataError, match="none of rank 1"):
        read_store_meshes([tmp_path / "store"])
    participant = start("Left", 0, 1)
    participant.set_mesh_vertices("Hot", [[0.0, np.nan]])
    participant.initialize()
    with pytest.raises(DataError, match='expected finite coordinates of mesh "Hot" of Left'):
        read_store_meshes([tmp_path / "store"])


@pytest.mark.parametrize(("name", "place"), [("Warm", [0.0, 0.0]), ("Hot", [0.0, 0.0, 0.0])])
def test_meshes_that_the_configuration_does_not_have_are_one_error(
    start: Any, tmp_path: Path, name: str, place: list[float]
) -> None:
    participant = start("Left", 0, 1)
    participant.set_mesh_vertices(name, [place])
    participant.initialize()

    with pytest.raises(DataError) as raised:
        read_store_meshes([tmp_path / "store"])
    assert str(raised.value).endswith(
        f': expected meshes of the configuration, in its dimensions, found another "{name}"; record the run again'
    )


def test_the_run_that_tells_most_is_taken(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ranks_of(split: dict[str, int]) -> dict[str, int]:
        run = run_with_meshes([tmp_path / "store"], split)
        assert run is not None
        return {str(group[0].metadata["participant"]): len(group) for group in run}

    for setting, ranks in {"boxes": (1, 1), "coordinates": (2, 1), "0": (3, 1)}.items():
        monkeypatch.setenv("PRECICE_LB_MESHES", setting)
        # Runs of one participant each, one after the other.
        monkeypatch.setenv("PRECICE_LB_METADATA", f'{{"run": "{setting}"}}')
        _run(start, {"Left": ranks[0], "Right": ranks[1]})
    assert ranks_of({"Left": 7, "Right": 7}) == {"Left": 2, "Right": 1}
    assert ranks_of({"Left": 1, "Right": 1}) == {"Left": 1, "Right": 1}


def test_a_recommendation_gets_the_partners_of_its_split_beside_it(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write_beside([tmp_path, tmp_path / "table.csv"], {"Left": 2, "Right": 2}, tmp_path / "out") == []
    _run(start, {"Left": 3, "Right": 2})
    written = write_beside([tmp_path / "store"], {"Left": 3, "Right": 2}, tmp_path / "out")
    assert {"partners.json", "partners.h5"} <= {path.name for path in written}
    assert all(path.is_file() for path in written)
    (missing, *_) = json.loads((tmp_path / "out" / "partners.json").read_text())["missing"]
    assert "record with PRECICE_LB_MESHES=coordinates" in missing


RECORDED = (
    "partner ranks are those of the recorded Left 3 ranks and Right 2 ranks, not of Left 6 ranks and Right 2 ranks"
)


def test_partners_of_a_recorded_split_are_those_that_were_measured(
    start: Any, tmp_path: Path, coordinates: None
) -> None:
    _run(start, {"Left": 3, "Right": 2})

    report = partners_of_split([tmp_path / "store"], {"Left": 3, "Right": 2})

    assert report is not None
    assert (report.ranks, report.forecast, report.missing) == ({"Left": 3, "Right": 2}, None, ())


def test_partners_of_another_split_are_a_forecast_where_coordinates_are_known(
    start: Any, tmp_path: Path, coordinates: None
) -> None:
    _run(start, {"Left": 3, "Right": 2}, with_regions=False)

    report = partners_of_split([tmp_path / "store"], {"Left": 6, "Right": 2})

    assert report is not None
    assert report.ranks == {"Left": 6, "Right": 2}
    assert report.forecast is not None
    assert report.forecast.partitions == {"Hot": "bisection", "Cold": "bisection"}
    assert report.missing == ()


def test_with_access_regions_partners_of_another_split_are_the_recorded_ones(
    start: Any, tmp_path: Path, coordinates: None
) -> None:
    _run(start, {"Left": 3, "Right": 2})

    report = partners_of_split([tmp_path / "store"], {"Left": 6, "Right": 2})

    assert report is not None
    assert (report.ranks, report.forecast) == ({"Left": 3, "Right": 2}, None)
    assert report.missing == (f"{RECORDED}: there are access regions, which nobody knows for other ranks",)


def test_with_boxes_alone_partners_of_another_split_are_the_recorded_ones(start: Any, tmp_path: Path) -> None:
    _run(start, {"Left": 3, "Right": 2})

    report = partners_of_split([tmp_path / "store"], {"Left": 6, "Right": 2})

    assert report is not None
    assert report.ranks == {"Left": 3, "Right": 2}
    first, second = report.missing
    assert first == f"{RECORDED}: a forecast needs coordinates: record with PRECICE_LB_MESHES=coordinates"
    assert second.startswith("Hot: Left to Right: level 2 and the data per time window need coordinates")


def test_there_are_no_partners_of_other_participants(start: Any, tmp_path: Path) -> None:
    _run(start, {"Left": 3, "Right": 2})

    assert partners_of_split([tmp_path / "store"], {"Left": 3, "Up": 2}) is None
    assert partners_of_split([], {"Left": 3, "Right": 2}) is None
    assert partners_of_split([tmp_path], {"Left": 3, "Right": 2}) is not None


def _evidence(directory: Path, *more: Path) -> Evidence:
    """A recommendation for Left and Right from a table, and further sources of the page."""
    table = write_csv(directory / "times.csv", {"Left": falling(2.0), "Right": falling(1.0)})
    schedule = Schedule.parallel(["Left", "Right"])
    recommendation = recommend_split(load_sources([table]), 12, coupling=schedule, within=0.05)
    return Evidence(recommendation, sources=(table, *more))


def test_a_page_without_recorded_meshes_says_what_to_record(tmp_path: Path) -> None:
    with pytest.raises(Missing) as raised:
        list(partners_section(_evidence(tmp_path)))

    assert str(raised.value) == (
        "no run among the sources kept its meshes: record one with PRECICE_LB_MESHES=coordinates; for compiled solvers "
        "add <export:csv> to their participants, and name that directory to precice-lb partners"
    )


def test_a_page_shows_a_picture_of_each_mesh_and_then_what_is_missing(start: Any, tmp_path: Path) -> None:
    _run(start, {"Left": 3, "Right": 2})

    picture, missing, *_ = partners_section(_evidence(tmp_path, tmp_path / "store"))

    assert isinstance(picture, Chart)
    assert picture.name == "partners-1"
    assert picture.caption == (
        "Each cell is a pair of ranks of Left and Right: grey pairs only open a connection, coloured ones exchange "
        "data."
    )
    assert isinstance(missing, Paragraph)
    assert missing.text.startswith("Partner ranks are those of the recorded Left 3 ranks and Right 2 ranks, not of ")


def test_a_page_says_why_meshes_cannot_be_read(start: Any, tmp_path: Path) -> None:
    _run(start, {"Left": 3, "Right": 2})
    next((tmp_path / "store").rglob("Left-1-3.h5")).unlink()

    with pytest.raises(Missing, match="expected stores of all 3 ranks of Left, found none of rank 1"):
        list(partners_section(_evidence(tmp_path, tmp_path / "store")))


def test_the_end_of_a_run_writes_partners_beside_its_recommendation(tmp_path: Path) -> None:
    run_pair(tmp_path, "parallel-explicit", windows=4)

    written = write_at_end(tmp_path, tmp_path / "precice-lb-store", "A", complete=enrich)

    assert {"recommendation.json", "partners.json", "partners.h5"} <= {path.name for path in written}
    links = json.loads((tmp_path / "partners.json").read_text())["links"]
    # Each receives the mesh of the other.
    assert sorted(link["mesh"] for link in links) == ["A-Mesh", "B-Mesh"]
