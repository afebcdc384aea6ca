"""Level 2 on cases with a plain answer, its paths against each other, and its errors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from precice_lb.case import parse_configuration
from precice_lb.exceptions import ConfigurationError, DataError
from precice_lb.partners import Link, LinkMapping, PartitionedMesh, connected_ranks, make_mesh
from precice_lb.partners.level2 import Needs, nearest_cells, nearest_vertices, needed_vertices
from precice_lb.partners.links import links_of, receiver_boxes

SURFACE = (Path(__file__).parents[1] / "data" / "configurations" / "partners-surface.xml").read_text(encoding="utf-8")
NEAREST = LinkMapping("nearest-neighbor", "N")


def _link(*mappings: LinkMapping, filtered: bool = True, two_level: bool = True, api_access: bool = False) -> Link:
    return Link("M", "A", "B", 2, 0.5, filtered, api_access, two_level, False, mappings, ())


def _mesh(name: str, who: str, seed: int, ranks: int, count: int = 400) -> PartitionedMesh:
    points = np.random.default_rng(seed).random((count, 2))
    return make_mesh(name, who, points, (points[:, 0] * ranks).astype(int) % ranks, ranks)


def _needed(link: Link, provider: PartitionedMesh, local: PartitionedMesh) -> list[list[int]]:
    """Vertices that each rank of N needs of M."""
    needs = needed_vertices(link, provider, {"N": local})
    return [needs.vertices[needs.ranks == rank].tolist() for rank in range(len(local.counts))]


@pytest.mark.parametrize("two_level", [True, False])
def test_each_rank_needs_the_nearest_vertices_also_for_projections_without_connectivity(two_level: bool) -> None:
    provider, local = _mesh("M", "A", 1, 7), _mesh("N", "B", 2, 5)
    distance = np.linalg.norm(local.coordinates[:, None] - provider.coordinates[None], axis=2)
    wanted = [np.unique(distance.argmin(axis=1)[local.rank_of == rank]).tolist() for rank in range(5)]
    projection = LinkMapping("nearest-projection", "N")
    assert _needed(_link(NEAREST, two_level=two_level), provider, local) == wanted
    assert _needed(_link(NEAREST, projection, two_level=two_level), provider, local) == wanted


@pytest.mark.parametrize("seed", range(40))
def test_all_ranks_at_once_need_what_they_need_one_by_one(seed: int) -> None:
    """On grids, where vertices are equally near, and with boxes beyond which the nearest one lies."""
    random = np.random.default_rng(seed)
    meshes = []
    for name, who in ("MA", "NB"):
        points = random.random((30, 2)) if random.random() < 0.5 else random.integers(0, 5, (30, 2)) / 4
        points, ranks = np.unique(points, axis=0), int(random.integers(2, 6))
        meshes.append(make_mesh(name, who, points, (points[:, 0] * ranks).astype(int).clip(0, ranks - 1), ranks))
    filtered, two_level = random.random(2) < 0.5
    link = _link(NEAREST, filtered=bool(filtered), two_level=bool(two_level))
    link = dataclasses.replace(link, safety_factor=float(random.choice([0.0, 0.1, 0.5])))
    single = dataclasses.replace(link, mappings=(LinkMapping("nearest-projection", "N"),))
    assert _needed(link, *meshes) == _needed(single, *meshes)


def test_the_nearest_vertex_outside_the_box_does_not_count() -> None:
    provider = make_mesh("M", "A", [[0.9, 3.0], [0.5, 1.4], [0.0, 0.0]], [0, 1, 1], 2)
    local = make_mesh("N", "B", [[0.0, 0.0], [1.0, 1.0], [9.0, 9.0], [9.0, 9.5]], [0, 0, 1, 1], 2)
    assert _needed(_link(NEAREST), provider, local) == [[1, 2], []]


def test_a_serial_receiver_keeps_everything() -> None:
    provider, local = _mesh("M", "A", 1, 3), _mesh("N", "B", 2, 1, 10)
    pairs, vertices = needed_vertices(_link(NEAREST, two_level=False), provider, {"N": local}).pairs(provider)
    assert pairs.tolist() == [[0, 0], [1, 0], [2, 0]]
    assert vertices.tolist() == provider.counts.tolist()


def test_a_projection_uses_the_ends_of_the_nearest_edge() -> None:
    provider = make_mesh("M", "A", [[0, 0], [1, 0], [2, 0], [3, 0]], [0, 0, 1, 1], 2, cells={"edges": [[0, 1], [2, 3]]})
    local = make_mesh("N", "B", [[0.25, 0.1], [2.75, 0.1], [2.5, 0.0]], [0, 1, 1], 2)
    link = _link(LinkMapping("nearest-projection", "N"), filtered=False, two_level=False)
    assert _needed(link, provider, local) == [[0, 1], [2, 3]]


def test_a_compact_kernel_reaches_its_radius_beyond_what_a_rank_owns() -> None:
    points = np.column_stack([np.arange(10.0), np.zeros(10)])
    provider, local = (make_mesh(name, who, points, np.arange(10) // 5, 2) for name, who in ("MA", "NB"))
    first, second = _needed(_link(LinkMapping("rbf-global-direct", "N", 1.0), filtered=False), provider, local)
    # Rank 0 tags 0 to 5 and rank 1 tags 4 to 9; boxes reach over each other, so that most vertices are shared.
    assert set(range(6)) <= set(first)
    assert set(range(4, 10)) <= set(second)


def _on_a_line(name: str, who: str, *ranks: Sequence[float]) -> PartitionedMesh:
    x = np.concatenate([np.asarray(rank, dtype=float) for rank in ranks])
    rank_of = np.repeat(np.arange(len(ranks)), [len(rank) for rank in ranks])
    return make_mesh(name, who, np.column_stack([x, np.zeros_like(x)]), rank_of, len(ranks))


def _kernel_needs(
    provided: Sequence[float], local: Sequence[Sequence[float]], *, two_level: bool, radius: float = 3.0
) -> list[list[float]]:
    """Where the vertices are that ranks keep for a kernel with compact support."""
    link = _link(LinkMapping("rbf-global-direct", "N", radius), filtered=False, two_level=two_level)
    needed = _needed(link, _on_a_line("M", "A", provided), _on_a_line("N", "B", *local))
    return [[float(provided[vertex]) for vertex in vertices] for vertices in needed]


TEN = list(range(10))


@pytest.mark.parametrize(
    ("provided", "local", "kept"),
    [
        # Rank 0 tags and owns 0 to 4, which is its share; from there it reaches 7. Rank 1 tags all, and owns the rest.
        (TEN, [TEN[:2], TEN[2:]], [TEN[:8], TEN]),
        # Rank 0 tags all, but owns its share alone: 0 to 4. Rank 1 owns 5 to 9, and so reaches 2.
        (TEN, [TEN[:8], TEN[8:]], [TEN, TEN[2:]]),
        # Rank 0 tags 0 to 6: one more than its share of twelve, which nobody else takes, and from which it reaches 9.
        ([*TEN, 100, 101], [TEN[:4], [100, 101]], [TEN, [100, 101]]),
        # A third rank far from all tags nothing, and has no share.
        (TEN, [TEN[:8], TEN[8:], [500, 501]], [TEN, TEN[2:], []]),
        # Nobody tags anything.
        (TEN, [[200, 201], [500, 501]], [[], []]),
    ],
    ids=["a share each", "no more than a share", "what is left", "a rank without", "all without"],
)
def test_in_one_level_kernels_reach_from_an_even_share_of_vertices(
    provided: list[float], local: list[list[float]], kept: list[list[float]]
) -> None:
    assert _kernel_needs(provided, local, two_level=False) == kept


# With its margin the left rank reaches from -5 to 3, and tags -6 to 4; the right one from -1.5, and tags from -1.
LEFT, RIGHT = [-3, 0, 1], list(range(2, 10))


@pytest.mark.parametrize(
    ("last", "local", "kept"),
    [
        # The left rank shares all but -6 to -2, the right one all but 4 to 9: the left one keeps what both share.
        (9, [LEFT, RIGHT], [(-6, 7), (-1, 9)]),
        (9, [RIGHT, LEFT], [(-1, 9), (-6, 7)]),
        # Each has five of its own: the first rank keeps what both share.
        (8, [LEFT, RIGHT], [(-6, 7), (-1, 8)]),
        (8, [RIGHT, LEFT], [(-4, 8), (-6, 7)]),
    ],
    ids=["fewer first", "fewer last", "as many, left first", "as many, right first"],
)
def test_in_two_levels_kernels_reach_from_what_the_rank_with_fewer_of_its_own_keeps(
    last: int, local: list[list[float]], kept: list[tuple[int, int]]
) -> None:
    wanted = [[float(x) for x in range(low, high + 1)] for low, high in kept]

    assert _kernel_needs(range(-6, last + 1), local, two_level=True) == wanted


def test_regions_count_as_they_stand_but_for_just_in_time_mappings() -> None:
    region = np.array([[[0.0, 1.0], [0.0, 0.2]], [[np.nan] * 2] * 2])
    plain = receiver_boxes(_link(api_access=True), {}, region)
    assert np.array_equal(plain, region, equal_nan=True)
    timely = receiver_boxes(_link(LinkMapping("nearest-neighbor", None), api_access=True), {}, region)
    assert timely[0].tolist() == [[-0.5, 1.5], [-0.5, 0.7]]


def test_what_is_missing_or_of_another_case_is_one_error() -> None:
    provider, local = _mesh("M", "A", 1, 3), _mesh("N", "B", 2, 2)
    solid = make_mesh("N", "B", np.zeros((4, 3)), [0, 0, 1, 1], 2)
    for link, others, words in (
        (_link(api_access=True), {}, "expected access regions"),
        (_link(NEAREST), {}, 'expected mesh "N" of B'),
        (_link(NEAREST), {"N": solid}, "in 2 dimensions, found 3"),
        (_link(LinkMapping("axial-geometric-multiscale", "N")), {"N": local}, "found axial-geometric-multiscale"),
    ):
        with pytest.raises(DataError, match=words):
            needed_vertices(link, provider, others)


@pytest.mark.parametrize("kind", ["nearest-neighbor", "nearest-projection"])
def test_coordinates_are_needed_of_both_meshes(kind: str) -> None:
    meshes = _mesh("M", "A", 1, 3), _mesh("N", "B", 2, 2)
    for name, who, place in (("M", "A", 0), ("N", "B", 1)):
        provider, local = (
            dataclasses.replace(mesh, coordinates=None) if number == place else mesh
            for number, mesh in enumerate(meshes)
        )
        problem = f'expected the coordinates of mesh "{name}" of {who} to find what is exchanged, found its boxes'
        with pytest.raises(DataError, match=problem):
            needed_vertices(_link(LinkMapping(kind, "N")), provider, {"N": local})


def _needs(*tagged: tuple[int, int]) -> Needs:
    """Vertices of the provider, each with the rank of the receiver that keeps it."""
    vertices, ranks = np.array(tagged, dtype=np.int64).reshape(-1, 2).T
    return Needs(vertices, ranks)


FOUR = make_mesh("M", "A", [[-1.0, 0.5], [0.5, 3.0], [1.0, 1.0], [12.0, 12.0]], [0, 0, 1, 2], 3)
# Boxes from 0 to 2 and to 1; from 10 to 10.5 and to 14; of one vertex at 20; and none.
BOXES = make_mesh("N", "B", [[0.0, 0.0], [2.0, 1.0], [10.0, 10.0], [10.5, 14.0], [20.0, 20.0]], [0, 0, 1, 1, 2], 4)


def test_pairs_that_exchange_data_are_sorted_and_count_their_vertices() -> None:
    # Rank 0 keeps all of the provider's rank 0 and its rank 2, rank 2 one vertex of rank 0 and that of rank 1.
    pairs, counts = _needs((0, 0), (1, 0), (3, 0), (1, 2), (2, 2)).pairs(FOUR)

    assert pairs.tolist() == [[0, 0], [0, 2], [1, 2], [2, 0]]
    assert counts.tolist() == [2, 1, 1, 1]


def test_where_nothing_is_kept_there_are_no_pairs_and_no_factor() -> None:
    pairs, counts = _needs().pairs(FOUR)

    assert (pairs.shape, pairs.dtype) == ((0, 2), np.int64)
    assert (counts.shape, counts.dtype) == ((0,), np.int64)
    assert np.isnan(_needs().factor(FOUR, BOXES))


@pytest.mark.parametrize(
    ("tagged", "factor"),
    [
        # One below the box, and two above it; its longest edge is 2.
        ([(0, 0)], 0.5),
        ([(1, 0)], 1.0),
        ([(0, 0), (1, 0), (2, 0)], 1.0),
        ([(2, 0)], 0.0),
        # 1.5 beyond the box of rank 1, whose longest edge is 4: less than rank 0 needs, although it lies farther.
        ([(3, 1)], 0.375),
        ([(0, 0), (3, 1)], 0.5),
        # A box of one vertex does not grow.
        ([(3, 2)], 0.0),
        ([(0, 0), (3, 2)], 0.5),
    ],
)
def test_the_factor_is_how_far_vertices_lie_beyond_their_box_over_its_longest_edge(
    tagged: list[tuple[int, int]], factor: float
) -> None:
    assert _needs(*tagged).factor(FOUR, BOXES) == factor


def test_vertices_at_the_same_place_are_all_needed() -> None:
    provider = make_mesh("M", "A", [[0.0, 0.0], [5.0, 0.0], [0.0, 0.0]], [0, 0, 1], 2)
    local = make_mesh("N", "B", [[0.0, 0.0], [5.0, 0.0]], [0, 1], 2)

    assert _needed(_link(NEAREST), provider, local) == [[0, 2], [1]]


@pytest.mark.parametrize(("source", "place"), [("", "the data"), ("solid.csv", "solid.csv")])
def test_a_mesh_of_other_dimensions_is_refused_with_its_place(source: str, place: str) -> None:
    solid = make_mesh("N", "B", np.zeros((4, 3)), [0, 0, 1, 1], 2, source=source)

    with pytest.raises(DataError) as raised:
        receiver_boxes(_link(NEAREST), {"N": solid})
    assert str(raised.value) == (
        f'M: A to B: expected mesh "N" in 2 dimensions, found 3 in {place}; give meshes of this case'
    )


def test_a_mesh_that_is_not_there_or_not_the_receivers_is_refused() -> None:
    problem = 'M: A to B: expected mesh "N" of B, found {}; give the meshes of all participants, of this case'
    others = {"N": _mesh("N", "A", 1, 2), "L": _mesh("L", "B", 1, 2)}
    for meshes, found in (({}, "no mesh"), (others, "N, L")):
        with pytest.raises(DataError) as raised:
            receiver_boxes(_link(NEAREST), meshes)
        assert str(raised.value) == problem.format(found)


def test_a_mesh_tied_to_nothing_needs_access_regions() -> None:
    with pytest.raises(DataError) as raised:
        receiver_boxes(_link(api_access=True), {})
    assert str(raised.value) == (
        "M: A to B: expected access regions, as no mapping ties the mesh to one of B's own, found none; record the "
        "run, which keeps them, or give them"
    )


def test_boxes_of_several_local_meshes_and_the_region_are_joined() -> None:
    wide = make_mesh("N", "B", [[0.0, 0.0], [2.0, 1.0], [8.0, 8.0], [9.0, 8.0]], [0, 0, 1, 1], 2)
    high = make_mesh("L", "B", [[1.0, 0.0], [1.0, 4.0]], [0, 0], 2)
    region = np.array([[[-9.0, 0.0], [0.0, 1.0]], [[8.0, 8.5], [8.0, 30.0]]])
    mappings = NEAREST, LinkMapping("nearest-neighbor", "L")

    plain = receiver_boxes(_link(*mappings), {"N": wide, "L": high})
    access = receiver_boxes(_link(*mappings, api_access=True), {"N": wide, "L": high}, region)

    # Margins are half the longest edge: 1 and 2 of rank 0, 0.5 of rank 1; a region has none.
    assert plain.tolist() == [[[-1.0, 3.0], [-2.0, 6.0]], [[7.5, 9.5], [7.5, 8.5]]]
    assert access.tolist() == [[[-9.0, 3.0], [-2.0, 6.0]], [[7.5, 9.5], [7.5, 30.0]]]


def test_the_nearest_vertices_of_many_places_are_found() -> None:
    vertices = np.column_stack([np.arange(20_000.0), np.zeros(20_000)])

    places, nearest = nearest_vertices(cKDTree(vertices), vertices + 0.25)

    assert places.tolist() == nearest.tolist() == list(range(20_000))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_nearest_vertices_are_found_in_trees_of_few(count: int) -> None:
    vertices = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[:count]
    places, nearest = nearest_vertices(cKDTree(vertices), np.array([[1.0, 1.0], [0.1, 0.0], [9.0, 0.0]]))

    far = 1 if count > 1 else 0
    wanted = [*((0, vertex) for vertex in range(count)), (1, 0), (2, far)]
    assert sorted(zip(places.tolist(), nearest.tolist(), strict=True)) == wanted


def test_the_configuration_says_what_decides() -> None:
    text = SURFACE.replace('from="Fluid"/>', 'from="Fluid" safety-factor="0.1"/>')
    text = text.replace("<m2n:sockets ", '<m2n:sockets use-two-level-initialization="on" ')
    start, end = text.index("<mapping:"), text.index("</participant>\n  <m2n")
    kernel = '<basis-function:gaussian shape-parameter="2"/>'
    pum = (
        text[start:end].replace("nearest-neighbor", "rbf-pum-direct").replace("/>", ' vertices-per-cluster="9">KERNEL')
    )
    text = text[:start] + pum + "</mapping:rbf-pum-direct>" + text[end:]
    (link,) = links_of(parse_configuration(text.replace("KERNEL", kernel)))
    assert (link.provider, link.receiver, link.safety_factor) == ("Fluid", "Solid", 0.1)
    assert (link.two_level, link.filtered, link.mappings[0].vertices_per_cluster) == (True, False, 9)
    # exp(-(2 r)^2) falls to 1e-9 there.
    assert np.exp(-((2 * link.mappings[0].support_radius) ** 2)) == pytest.approx(1e-9)
    assert [(exchange.data, size) for exchange, size in link.exchanges] == [("Force", 3)]
    with pytest.raises(ConfigurationError, match="basis-function"):
        links_of(parse_configuration(text.replace("KERNEL", "")))
    without = re.sub("<m2n:.*/>", "", text.replace("KERNEL", kernel)).replace("coupling-scheme", "m2n:none")
    with pytest.raises(ConfigurationError, match="m2n"):
        links_of(parse_configuration(without))


@pytest.mark.parametrize("corners", [2, 3])
@pytest.mark.parametrize("count", [1, 3, 200])
def test_the_nearest_cells_are_those_of_all_cells(corners: int, count: int) -> None:
    generator = np.random.default_rng([corners, count])
    # Coarse coordinates, so that many cells are equally near, hold a point or have no extent.
    points = generator.integers(0, 9, (100, 2)).astype(float)
    cells, where = generator.integers(0, 100, (count, corners)), generator.integers(0, 18, (50, 2)) / 2
    reach = np.where(np.arange(50) % 3, np.inf, 1.5)
    reach[:10] = 0.0
    point, cell, square = nearest_cells(cells, points, where, np.minimum(reach, 99.0), 4)
    low, high = points[cells].min(axis=1), points[cells].max(axis=1)
    foot = np.clip(where[:, None], low, high)
    if corners == 2:
        start, along = points[cells[:, 0]], points[cells[:, 1]] - points[cells[:, 0]]
        share = ((where[:, None] - start) * along).sum(axis=2) / np.maximum((along**2).sum(axis=1), 1)
        foot = start + np.clip(share, 0, 1)[:, :, None] * along
    away = ((where[:, None] - foot) ** 2).sum(axis=2)
    fourth = np.sort(away, axis=1)[:, min(4, count) - 1]
    wanted = np.argwhere((away <= fourth[:, None] * (1 + 1e-9) + 1e-15) & (np.sqrt(away) <= reach[:, None]))
    result = np.sqrt(square) <= reach[point]
    assert np.stack([point, cell], axis=1)[result].tolist() == wanted.tolist()
    np.testing.assert_allclose(square, away[point, cell], atol=1e-12)


@pytest.mark.parametrize("two_level", [True, False])
def test_all_of_equally_near_vertices_count(two_level: bool) -> None:
    corners = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]
    provider = make_mesh("M", "A", np.array(corners) * 2, [0, 0, 1, 1, 1], 2)
    local = make_mesh("N", "B", [[1.0, 1.0], [3.0, 2.0], [9.0, 0.0], [7.0, 0.0]], [0, 0, 1, 1], 2)
    link = dataclasses.replace(_link(NEAREST, two_level=two_level), safety_factor=2.0)
    general = dataclasses.replace(link, mappings=(NEAREST, LinkMapping("nearest-projection", "N")))
    assert _needed(link, provider, local) == _needed(general, provider, local) == [[0, 1, 2, 3], [4]]


def test_all_of_equally_near_cells_count() -> None:
    points = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [0.9, 9.0]]
    provider = make_mesh("M", "A", points, [0] * 5, 2, cells={"edges": [[2, 3], [0, 1]]})
    local = make_mesh("N", "B", [[0.9, 1.0], [9.0, 9.0]], [0, 1], 2)
    link = _link(LinkMapping("nearest-projection", "N"), filtered=False, two_level=False)
    assert _needed(link, provider, local)[0] == [0, 1, 2, 3]


CASES = 2000 if FULL_COUNTS else 500


def _brute_force(provider: NDArray[np.float64], receiver: NDArray[np.float64], factor: float) -> NDArray[np.int64]:
    """preCICE's loops, box by box: default boxes are inside out, and only others are scaled."""
    big = np.finfo(float).max
    pairs = []
    for p, provided in enumerate(provider):
        for r, received in enumerate(receiver):
            a, b = (np.stack([np.full(len(x), big), np.full(len(x), -big)], 1) if np.isnan(x).any() else x.copy()
                    for x in (received, provided))  # fmt: skip
            if not np.isnan(received).any():
                longest = (a[:, 1] - a[:, 0]).max()
                a[:, 1] += factor * longest
                a[:, 0] -= factor * longest
            apart = ((a[:, 0] < b[:, 0]) & (a[:, 1] < b[:, 0])) | ((b[:, 0] < a[:, 0]) & (b[:, 1] < a[:, 0]))
            if not apart.any():
                pairs.append((p, r))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _random_boxes(generator: np.random.Generator, ranks: int, dimensions: int) -> NDArray[np.float64]:
    """Boxes on a coarse grid, so that they touch, coincide and shrink to faces, lines and points."""
    low = generator.integers(0, 6, (ranks, dimensions)).astype(float)
    size = generator.integers(0, 4, (ranks, dimensions)) * generator.integers(0, 2, (ranks, dimensions))
    boxes = np.stack([low, low + size], axis=2) * generator.choice([1.0, 0.1, 1e-9, 1e6])
    boxes[generator.random(ranks) < generator.choice([0.0, 0.2, 1.0], p=[0.5, 0.4, 0.1])] = np.nan
    return boxes


def test_pairs_equal_brute_force_on_degenerate_boxes() -> None:
    generator = np.random.default_rng(8)
    seen = 0
    for _ in range(CASES):
        dimensions = int(generator.integers(2, 4))
        sizes = generator.integers(1, 24 if FULL_COUNTS else 14, 2)
        provider, receiver = (_random_boxes(generator, int(n), dimensions) for n in sizes)
        factor = float(generator.choice([0.0, 0.1, 0.5, 1.0, 3.0]))
        result = connected_ranks(provider, receiver, safety_factor=factor)
        expected = _brute_force(provider, receiver, factor)
        assert result.dtype == np.int64
        assert np.array_equal(result, expected)
        seen += len(expected)
    assert seen > 5 * CASES
