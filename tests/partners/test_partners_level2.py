"""Level 2 on cases with a plain answer, its paths against each other, and its errors."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from numpy.typing import NDArray

from precice_lb.case import parse_configuration
from precice_lb.exceptions import ConfigurationError, DataError
from precice_lb.partners import Link, LinkMapping, PartitionedMesh, connected_ranks, make_mesh
from precice_lb.partners.level2 import nearest_cells, needed_vertices
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
    with pytest.raises(DataError, match="expected the coordinates"):
        needed_vertices(_link(NEAREST), dataclasses.replace(provider, coordinates=None), {"N": local})


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
