"""Partitioned meshes: their ranks and boxes, partitions for other ranks, cells, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precice_lb.case import parse_configuration
from precice_lb.exceptions import DataError
from precice_lb.partners import PartitionedMesh, connected_ranks, make_mesh, partners_report
from precice_lb.partners.meshes import bisection, repartition, scaled_boxes, united

CONFIGURATIONS = Path(__file__).parents[1] / "data" / "configurations"
SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def test_vertices_are_sorted_by_rank_and_keep_their_order() -> None:
    mesh = make_mesh("M", "A", SQUARE, [3, 0, 3, 0], 4, cells={"edges": [[0, 1], [2, 3]]}, source="here")

    assert mesh.points("").tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    assert (mesh.ranks, mesh.dimensions, mesh.vertices) == (4, 2, 4)
    assert mesh.counts.tolist() == [2, 0, 0, 2]
    assert mesh.rank_of.tolist() == [0, 0, 3, 3]
    assert mesh.offsets.tolist() == [0, 2, 2, 2, 4]
    assert mesh.boxes[[0, 3]].tolist() == [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    assert np.isnan(mesh.boxes[[1, 2]]).all()
    assert {kind: cells.tolist() for kind, cells in mesh.cells.items()} == {"edges": [[2, 0], [3, 1]]}
    assert mesh.source == "here"


def test_kinds_without_cells_are_left_out() -> None:
    assert make_mesh("M", "A", SQUARE, [0] * 4, 1, cells={"edges": [], "triangles": [[0, 1, 2]]}).cells.keys() == {
        "triangles"
    }


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"coordinates": [[0.0], [1.0], [2.0], [3.0]]},
            'mesh "M" of A: expected coordinates of shape (vertices, 2 or 3), found shape (4, 1)',
        ),
        ({"coordinates": [0.0, 1.0]}, "found shape (2,)"),
        (
            {"coordinates": [*SQUARE[:2], [math.inf, 2.0], [math.nan, 0.0]]},
            'mesh "M" of A: expected finite coordinates, found [inf, 2.0] at vertex 2',
        ),
        (
            {"rank_of": [0, 1]},
            'mesh "M" of A: expected a partition with one rank for each of 4 vertices, found shape (2,); give one of '
            "this mesh",
        ),
        (
            {"rank_of": [0, 1, 2, 0]},
            'mesh "M" of A: expected whole numbers of ranks from 0 to 1, found 2; correct them',
        ),
        ({"rank_of": [0, 1, -1, 2]}, "found -1; correct them"),
        ({"rank_of": [0, 0.5, 1, 0]}, "found 0.5; correct them"),
        (
            {"cells": {"edges": [[0, 1], [3, 4]]}},
            'mesh "M" of A: expected edges of vertices 0 to 3, found 0 to 4; correct its cells',
        ),
        ({"cells": {"triangles": [[-1, 1, 2]]}}, "expected triangles of vertices 0 to 3, found -1 to 2"),
        ({"rank_of": [0], "source": "a.csv"}, 'a.csv: mesh "M" of A: expected a partition'),
    ],
)
def test_what_is_no_mesh_is_refused_with_the_reason(changes: dict[str, Any], problem: str) -> None:
    values: dict[str, Any] = {"coordinates": SQUARE, "rank_of": [0, 1, 0, 1], "ranks": 2, **changes}

    with pytest.raises(DataError, match=re.escape(problem)):
        make_mesh("M", "A", **values)


def triangles(corners: list[list[float]]) -> list[set[int]]:
    """Halves of one quad."""
    mesh = make_mesh("M", "A", corners, [0] * 4, 1, cells={"quads": [[0, 1, 2, 3]]})
    assert mesh.cells.keys() == {"triangles"}
    return [set(corners) for corners in mesh.cells["triangles"].tolist()]


@pytest.mark.parametrize("turn", range(4))
def test_a_quad_is_split_along_its_shorter_diagonal(turn: int) -> None:
    # A rhomb that is four wide and two high: the shorter diagonal joins the two corners on the second axis.
    rhomb = np.roll([[-2.0, 0.0], [0.0, -1.0], [2.0, 0.0], [0.0, 1.0]], turn, axis=0)
    low, high = (int(np.flatnonzero((rhomb == corner).all(axis=1))[0]) for corner in ([0.0, -1.0], [0.0, 1.0]))

    halves = triangles(rhomb.tolist())

    assert all({low, high} <= half for half in halves)
    assert sorted(set.union(*halves)) == [0, 1, 2, 3]


def test_of_equal_diagonals_the_one_through_the_vertex_that_lies_farthest_back_is_taken() -> None:
    """Seen from the first vertex towards the second one, as preCICE begins its search for the convex hull."""
    square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    # Towards (1, 2) the four lie at 0, 5, 1 and -2.
    trapezoid = [[2.0, 0.0], [3.0, 2.0], [-1.0, 2.0], [0.0, 0.0]]

    assert triangles(square) == [{0, 1, 2}, {0, 2, 3}]
    assert triangles(trapezoid) == [{0, 1, 3}, {1, 2, 3}]


def test_halves_of_quads_follow_triangles() -> None:
    cells = {"triangles": [[0, 1, 3]], "quads": [[0, 1, 2, 3]]}

    mesh = make_mesh("M", "A", SQUARE, [0] * 4, 1, cells=cells)

    assert [set(cell) for cell in mesh.cells["triangles"].tolist()] == [{0, 1, 3}, {0, 1, 2}, {0, 2, 3}]


def test_a_box_around_boxes_leaves_out_empty_ones() -> None:
    empty = [[math.nan, math.nan], [math.nan, math.nan]]
    first = np.array([[[0.0, 1.0], [0.0, 1.0]], empty, empty])
    second = np.array([[[0.5, 2.0], [-1.0, 0.5]], [[3.0, 4.0], [3.0, 4.0]], empty])

    both = united([first, second])

    assert both[:2].tolist() == [[[0.0, 2.0], [-1.0, 1.0]], [[3.0, 4.0], [3.0, 4.0]]]
    assert np.isnan(both[2]).all()


def test_a_box_grows_on_every_side_by_the_factor_times_its_longest_edge() -> None:
    boxes = np.array([[[0.0, 2.0], [5.0, 6.0]], [[1.0, 1.0], [1.0, 1.0]]])

    assert scaled_boxes(boxes, 0.25).tolist() == [[[-0.5, 2.5], [4.5, 6.5]], [[1.0, 1.0], [1.0, 1.0]]]
    assert scaled_boxes(boxes, 0.0).tolist() == boxes.tolist()


@pytest.mark.parametrize("factor", [-0.1, math.inf, math.nan])
def test_a_safety_factor_below_zero_or_without_end_is_refused(factor: float) -> None:
    with pytest.raises(DataError, match=f"safety_factor: expected a number of at least 0, found {factor}"):
        connected_ranks(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), safety_factor=factor)


BOX = [[0.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        ([BOX, [[0.0, 1.0], [2.0, 1.0]]], "found [[0.0, 1.0], [2.0, 1.0]] for rank 1; check that rank's coordinates"),
        ([[[0.0, math.nan], [0.0, 1.0]]], "or NaN alone for an empty rank, found [[0.0, nan], [0.0, 1.0]] for rank 0"),
        ([BOX, BOX, [[0.0, math.inf], [0.0, 1.0]]], "for rank 2"),
        (BOX, "expected numbers in an array of shape (ranks, 2 or 3, 2), found (2, 2)"),
        (np.zeros((1, 4, 2)), "found (1, 4, 2)"),
        (np.zeros((1, 2, 3)), "found (1, 2, 3)"),
        ("words", "found (0,)"),
    ],
)
@pytest.mark.parametrize("name", ["provider_boxes", "receiver_boxes"])
def test_what_is_no_box_is_refused_with_the_reason(boxes: Any, problem: str, name: str) -> None:
    arguments = {"provider_boxes": [BOX], "receiver_boxes": [BOX], name: boxes}

    with pytest.raises(DataError, match=f"^{name}: .*{re.escape(problem)}"):
        connected_ranks(**arguments)


def test_boxes_of_different_dimensions_are_refused() -> None:
    with pytest.raises(DataError, match="found 2 of the provider and 3 of the receiver; give meshes of one case"):
        connected_ranks([BOX], np.zeros((1, 3, 2)))


def test_bisection_cuts_the_longest_extent_in_proportion_to_the_ranks() -> None:
    # Six along the first axis, and two far off it on the second: three ranks take 8 * 2 / 3 = 5.3 and the rest.
    along = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [5.0, 0.0]])
    points = np.concatenate([along, [[0.0, 10.0], [1.0, 9.0]]])

    # Five of lower second coordinate are cut along the first axis into two and three, as half of five is rounded.
    assert bisection(points, 3).tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert bisection(points, 1).tolist() == [0] * 8


def test_a_partition_for_other_ranks_says_how_it_was_made() -> None:
    mesh = make_mesh("M", "A", SQUARE, [0] * 4, 1)

    assert repartition(mesh, 2).source == "mesh by bisection"
    assert repartition(make_mesh("M", "A", SQUARE, [0] * 4, 1, source="run 7"), 2).source == "run 7 by bisection"
    with pytest.raises(DataError, match="expected at least 1 rank of A, found 0"):
        repartition(mesh, 0)


def test_ranks_away_from_the_interface_keep_their_share_but_one_rank_is_left() -> None:
    # One rank of eight has vertices: one of four is half a rank, and two of sixteen.
    mesh = make_mesh("M", "A", SQUARE, [5] * 4, 8)

    assert repartition(mesh, 4).counts.tolist() == [4, 0, 0, 0]
    assert repartition(mesh, 16).counts.tolist() == [2, 2, *[0] * 14]


def test_meshes_of_boxes_alone_give_level_1() -> None:
    boxes = {"Hot": [BOX, [[4.0, 5.0], [0.0, 1.0]]], "Cold": [BOX]}
    meshes = {
        name: PartitionedMesh(name, who, np.full(len(boxes[name]), 7), np.array(boxes[name]))
        for name, who in (("Hot", "Left"), ("Cold", "Right"))
    }
    text = (CONFIGURATIONS / "partners-regions.xml").read_text(encoding="utf-8")

    report = partners_report(parse_configuration(text), meshes)

    assert [(mesh.cells, mesh.coordinates, mesh.source) for mesh in meshes.values()] == [({}, None, "")] * 2
    assert report.links[0].level_1.tolist() == [[0, 0]]
    assert report.links[0].mesh_vertices == 14
    assert report.missing == (
        "Hot: Left to Right: level 2 and the data per time window need coordinates: record with "
        "PRECICE_LB_MESHES=coordinates",
    )


@pytest.mark.parametrize(("source", "place"), [("", "the data"), ("store-3", "store-3")])
def test_coordinates_that_are_not_there_are_asked_for(source: str, place: str) -> None:
    mesh = PartitionedMesh("Hot", "Left", np.array([7]), np.array([BOX]), source=source)

    with pytest.raises(DataError) as raised:
        mesh.points("to paint it")
    assert str(raised.value) == (
        f'expected the coordinates of mesh "Hot" of Left to paint it, found its boxes alone in {place}; record with '
        "PRECICE_LB_MESHES=coordinates or give exported meshes"
    )
