"""What the partner tests share: cases of `partners_truth` as the package sees them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from partners_truth import GRID, configuration

from precice_lb.case import parse_configuration
from precice_lb.partners import Link, PartitionedMesh, make_mesh
from precice_lb.partners.level2 import needed_vertices
from precice_lb.partners.links import links_of, receiver_boxes
from precice_lb.partners.meshes import overlapping_pairs

Spec = dict[str, Any]


def meshes_of(spec: Spec) -> dict[str, PartitionedMesh]:
    """Make the case's meshes."""
    return {
        name: make_mesh(
            name,
            mesh["owner"],
            np.array(mesh["points"], dtype=float) / GRID,
            np.repeat(np.arange(len(mesh["counts"])), mesh["counts"]),
            len(mesh["counts"]),
            cells=mesh["cells"],
        )
        for name, mesh in spec["meshes"].items()
    }


def links_and_regions(spec: Spec) -> list[tuple[Link, NDArray[np.float64] | None]]:
    """Read the links off the case's configuration, with the access regions."""
    regions = {link["mesh"]: link["regions"] for link in spec["links"]}
    links = links_of(parse_configuration(configuration(spec)))
    return [(link, None if regions[link.mesh] is None else np.array(regions[link.mesh])) for link in links]


def judge(spec: Spec, truth: dict[str, Any]) -> dict[str, bool]:
    """Compare a case with what libprecice made of it: connections, and whether vertices are the same or more."""
    meshes = meshes_of(spec)
    expected: Counter[tuple[int, int]] = Counter({(0, 0): 1})
    same, missed, same_pairs = True, False, True
    for link, region in links_and_regions(spec):
        provider = meshes[link.mesh]
        needs = needed_vertices(link, provider, meshes, region)
        pairs = needs.pairs(provider)[0]
        connected = overlapping_pairs(provider.boxes, receiver_boxes(link, meshes, region)) if link.two_level else pairs
        for a, b in connected.tolist():
            expected[(a, b) if link.provider == "A" else (b, a)] += 1
        kept = {(vertex, rank) for rank, vertices in enumerate(truth["kept"][link.mesh]) for vertex in vertices}
        needed = set(zip(needs.vertices.tolist(), needs.ranks.tolist(), strict=True))
        same, missed = same and kept == needed, missed or not kept <= needed
        owners = provider.rank_of.tolist()
        same_pairs &= {(owners[vertex], rank) for vertex, rank in kept} == set(map(tuple, pairs.tolist()))
    measured = {(a, b): n for a, b, n in truth["connections"]}
    return {"level_1": dict(expected) == measured, "level_2": same_pairs, "vertices": same, "missed": missed}
