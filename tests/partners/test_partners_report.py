"""The report on partner ranks: sources, forecast, files, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from report_helpers import refused

from precice_lb.case import parse_configuration, read_configuration
from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.partners import (
    CostModel,
    PartitionedMesh,
    PartnersReport,
    connected_ranks,
    make_mesh,
    partners_report,
    read_exports,
)
from precice_lb.partners.analysis import start_up
from precice_lb.partners.meshes import bisection, repartition

_FILE = Path(__file__).parents[1] / "data" / "configurations" / "partners-surface.xml"
CONFIGURATION = _FILE.read_text(encoding="utf-8")


def surface(seed: int, side: int) -> NDArray[np.float64]:
    """Points on a wavy surface, one in each cell of a grid."""
    generator = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
    flat = (grid + generator.uniform(-0.3, 0.3, grid.shape)) / side
    return np.column_stack([flat, 0.2 * np.sin(4 * flat[:, 0]) * np.cos(3 * flat[:, 1])])


def partitioned(
    name: str, participant: str, seed: int, side: int, ranks: int, *, strips: bool = False
) -> PartitionedMesh:
    """Strips across the first axis, or parts of bisection."""
    points = surface(seed, side)
    rank_of = bisection(points, ranks)
    if strips:
        rank_of[np.argsort(points[:, 0])] = np.arange(len(points)) * ranks // len(points)
    return make_mesh(name, participant, points, rank_of, ranks)


def report_of(meshes: Mapping[str, PartitionedMesh], text: str = CONFIGURATION) -> PartnersReport:
    """The report on meshes by the text of a configuration."""
    return partners_report(parse_configuration(text), meshes)


def write_exports(mesh: PartitionedMesh, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    points = mesh.points("to write it")
    for rank, (begin, end) in enumerate(zip(mesh.offsets[:-1], mesh.offsets[1:], strict=True)):
        rows = [";".join(f"{value:.6g}" for value in point) + f";{rank};0;0;0" for point in points[begin:end]]
        text = "\n".join(["PosX;PosY;PosZ;Rank;ForceX;ForceY;ForceZ", *rows]) + "\n"
        (directory / f"{mesh.name}-{mesh.participant}.{rank}_init.csv").write_text(text)


@pytest.fixture
def meshes() -> dict[str, PartitionedMesh]:
    return {
        "Fluid-Mesh": partitioned("Fluid-Mesh", "Fluid", 1, 40, 12, strips=True),
        "Solid-Mesh": partitioned("Solid-Mesh", "Solid", 2, 30, 5),
    }


@pytest.fixture
def case(tmp_path: Path, meshes: dict[str, PartitionedMesh]) -> Path:
    (tmp_path / "precice-config.xml").write_text(CONFIGURATION)
    for mesh in meshes.values():
        write_exports(mesh, tmp_path / "exports")
    return tmp_path


def test_exports_come_back_as_they_were_set(case: Path, meshes: dict[str, PartitionedMesh]) -> None:
    result = read_exports([case / "exports"], read_configuration(case / "precice-config.xml"))
    for name, mesh in meshes.items():
        assert np.array_equal(result[name].counts, mesh.counts)
        assert np.allclose(result[name].points(""), mesh.points(""), rtol=1e-5)


def test_the_report_counts_pairs_data_and_empty_pairs(meshes: dict[str, PartitionedMesh]) -> None:
    (result,) = report_of(meshes).links
    assert np.array_equal(result.level_1, connected_ranks(meshes["Fluid-Mesh"].boxes, meshes["Solid-Mesh"].boxes))
    assert result.level_2 is not None
    assert result.vertices is not None
    assert {tuple(pair) for pair in result.level_2.tolist()} <= {tuple(pair) for pair in result.level_1.tolist()}
    assert result.empty_pairs == len(result.level_1) - len(result.level_2) > 0
    # Three components of eight bytes; one message per pair of the configured, one-level initialisation.
    assert result.pair_bytes is not None
    assert result.pair_bytes.sum() == 24 * result.vertices.sum()
    assert result.messages_per_window == len(result.level_2)
    assert result.partners(0).sum() == result.partners(1).sum() == len(result.level_1)
    # With the smallest safety factor that is enough, every rank keeps what it kept.
    factor = f'from="Fluid" safety-factor="{result.needed_factor * 1.0001}"/>'
    (tight,) = report_of(meshes, CONFIGURATION.replace('from="Fluid"/>', factor)).links
    assert len(tight.level_1) < len(result.level_1)
    assert np.array_equal(tight.level_2, result.level_2)
    assert np.array_equal(tight.vertices, result.vertices)


def test_thin_strips_and_many_ranks_are_advised_against() -> None:
    fluid = partitioned("Fluid-Mesh", "Fluid", 1, 80, 1200, strips=True)
    solid = partitioned("Solid-Mesh", "Solid", 2, 60, 200, strips=True)
    empty = make_mesh("Solid-Mesh", "Solid", solid.points(""), solid.rank_of, 210)
    report = report_of({"Fluid-Mesh": fluid, "Solid-Mesh": empty})
    text = "\n".join(report.advice)
    for words in ("safety-factor 0.05 instead of 0.5", "compact partitions", "10 of 210 ranks of Solid hold nothing"):
        assert words in text
    assert "two-level" not in text


def test_meshes_apart_are_told_before_precice_stops(meshes: dict[str, PartitionedMesh]) -> None:
    solid = meshes["Solid-Mesh"]
    apart = make_mesh("Solid-Mesh", "Solid", np.add(solid.points(""), [9, 0, 0]), solid.rank_of, 5)
    report = report_of({**meshes, "Solid-Mesh": apart})
    assert "preCICE will stop, as no vertex lies in the boxes of 5 ranks of Solid" in report.advice[0]
    assert report.links[0].empty_pairs == len(report.links[0].level_1) == 0


def test_parts_are_even_and_empty_ranks_keep_their_share() -> None:
    points = surface(3, 30)
    for ranks in (1, 2, 7, 60):
        counts = np.bincount(bisection(points, ranks), minlength=ranks)
        assert len(counts) == ranks
        assert counts.max() - counts.min() <= 4
    mesh = make_mesh("M", "A", points, np.repeat([0, 2], 450), 4)
    assert (repartition(mesh, 8).counts > 0).sum() == 4


def test_a_forecast_from_few_ranks_is_near_a_partition_for_many() -> None:
    few = [partitioned("M", "A", 1, 200, 9), partitioned("N", "B", 2, 200, 4)]
    many = [partitioned("M", "A", 3, 200, 150), partitioned("N", "B", 4, 200, 50)]
    guess = [repartition(mesh, ranks) for mesh, ranks in zip(few, (150, 50), strict=True)]
    for side in (0, 1):
        partners = [np.bincount(connected_ranks(pair[0].boxes, pair[1].boxes)[:, side]) for pair in (many, guess)]
        assert partners[1].mean() == pytest.approx(partners[0].mean(), rel=0.1)
        assert partners[1].max() == pytest.approx(partners[0].max(), rel=0.25)


def test_the_command_writes_what_it_shows(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["partners", str(case / "exports"), "--config", str(case / "precice-config.xml")]
    assert main([*arguments, "--output", str(case / "out")]) == 0
    capsys.readouterr()
    options = ["--ranks", "Fluid=30,Solid=8", "--constants", "vertex=1e-6,file=7"]
    assert main([*arguments, "--format", "json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["cost_model"]["vertex"], document["cost_model"]["file"]) == (1e-6, 7.0)
    assert document["ranks"] == {"Fluid": 30, "Solid": 8}
    assert document["forecast"]["partitions"] == {"Fluid-Mesh": "bisection", "Solid-Mesh": "bisection"}
    # What was measured is cut into strips.
    assert 0 < document["forecast"]["mean_error"] < 0.05
    written = json.loads((case / "out" / "partners.json").read_text())
    with h5py.File(case / "out" / "partners.h5") as file:
        level_2 = file["0/level_2"]
        assert level_2["indptr"][-1] == len(level_2["indices"]) == written["links"][0]["level_2_pairs"]
        assert level_2["data"][:].sum() * 24 == written["links"][0]["bytes_per_window"]
        assert tuple(level_2.attrs["shape"]) == (12, 5)
    assert (case / "out" / "partners-Fluid-Mesh-Solid-pairs.svg").stat().st_size > 5000


def test_a_partition_of_ones_own_is_taken(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt(case / "ranks.txt", np.arange(1600) % 3, fmt="%d")
    arguments = ["partners", str(case / "exports"), "--config", str(case / "precice-config.xml"), "--format", "json"]
    assert main([*arguments, "--ranks", "Fluid=3", "--partition", f"Fluid-Mesh={case / 'ranks.txt'}"]) == 0
    assert json.loads(capsys.readouterr().out)["links"][0]["level_1_pairs"] == 15


def _refused(case: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    return refused(capsys, "partners", case / "exports", "--config", case / "precice-config.xml", *more)


def test_bad_input_is_one_clear_error(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (case / "ranks.txt").write_text("0\n1\n")
    partition = ["--ranks", "Fluid=2", "--partition", f"Fluid-Mesh={case / 'ranks.txt'}"]
    assert "one rank for each of 1600 vertices" in _refused(case, capsys, *partition)
    file = case / "exports" / "Fluid-Mesh-Fluid.3_init.csv"
    kept = file.read_bytes()
    for old, new, words in (
        (b"\n0.", b"\nnan;", "finite coordinates"),
        (b"\n0.", b"\n0,", "line 2"),
        (b"\n0.", b"\n\xff0.", "line 2"),
        (b"PosY;PosZ;", b"PosY;", "in 3 dimensions"),
    ):
        file.write_bytes(kept.replace(old, new, 1))
        assert words in _refused(case, capsys)
    for pattern, words in (
        (file.name, "none of rank 3"),
        ("Fluid*", 'expected mesh "Fluid-Mesh" of Fluid'),
        ("Solid*", "expected exports of"),
    ):
        for path in (case / "exports").glob(pattern):
            path.unlink()
        assert words in _refused(case, capsys)


def test_meshes_of_one_participant_have_the_same_ranks(meshes: dict[str, PartitionedMesh]) -> None:
    other = partitioned("Other", "Fluid", 1, 10, 3, strips=True)
    with pytest.raises(DataError, match="all meshes of Fluid on the same ranks"):
        report_of({**meshes, "Other": other})


def test_ranks_that_preCICE_refuses_are_advised_against_first() -> None:
    text = CONFIGURATION.replace("<m2n:sockets ", '<m2n:sockets use-two-level-initialization="true" ')
    meshes = {
        "Fluid-Mesh": partitioned("Fluid-Mesh", "Fluid", 1, 20, 4),
        "Solid-Mesh": partitioned("Solid-Mesh", "Solid", 2, 20, 1),
    }
    first, *others = report_of(meshes, text).advice
    assert "expected at least 2 ranks of Solid, found 1, with which preCICE refuses to start" in first
    assert ":12); change the ranks, or switch use-two-level-initialization off" in first
    assert not any("of Fluid, found" in advice for advice in others)
    assert not any("two-level" in advice for advice in report_of(meshes).advice)


def test_a_model_counts_steps_vertices_and_files_as_stated() -> None:
    case: dict[str, Any] = {"ranks": (4, 8), "vertices": 1000, "most_own": 300, "partners": 3, "most_received": 500}
    model = CostModel(latency=1.0, file=10.0, vertex=0.1, copy=0.01)
    one, two = (start_up(model, two_level=levels, kept=1200, **case) for levels in (False, True))
    both = {"connect primary ranks": 4.0, "set up own vertices": 30.0, "settle owners": 8.0}
    assert one.parts == pytest.approx(
        {
            **both,
            "connect": 110.0,
            "gather and send the mesh": 200.0,
            "broadcast the mesh": 10.0,
            "broadcast distributions": 22.0 + 12.0,
        }
    )
    assert two.parts == pytest.approx({**both, "connect": 80.0, "exchange pieces": 5.0})
    assert (one.seconds, two.seconds) == (pytest.approx(396.0), pytest.approx(127.0))
    assert one.primary_bytes == one.rank_bytes == 1000 * 72 + 2200 * 4
    assert two.rank_bytes == 4 * model.box_bytes + 500 * model.vertex_bytes
    assert two.primary_bytes == two.rank_bytes + 8 * model.box_bytes
