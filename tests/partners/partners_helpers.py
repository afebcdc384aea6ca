"""What the partner tests share: a planted link, and cases of `partners_truth` as the package sees them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from partners_truth import GRID, configuration

from precice_lb.case import parse_configuration
from precice_lb.partners import Link, LinkPartners, PartitionedMesh, StartUp, make_mesh
from precice_lb.partners.level2 import needed_vertices
from precice_lb.partners.links import links_of, receiver_boxes
from precice_lb.partners.meshes import overlapping_pairs

Spec = dict[str, Any]

LINK = Link(
    mesh="Fluid-Mesh",
    provider="Fluid",
    receiver="Solid",
    dimensions=3,
    safety_factor=0.5,
    filtered=True,
    api_access=False,
    two_level=False,
    gathered=False,
    mappings=(),
    exchanges=(),
)


def pairs(*ranks: tuple[int, int]) -> NDArray[np.int64]:
    return np.array(ranks, dtype=np.int64).reshape(-1, 2)


def planted(**changes: Any) -> LinkPartners:
    """Three ranks of Fluid and two of Solid: 0 and 1 of Fluid meet 0 of Solid, 2 meets 1; one pair has no data."""
    values: dict[str, Any] = {
        "link": LINK,
        "provider_boxes": np.zeros((3, 3, 2)),
        "receiver_boxes": np.zeros((2, 3, 2)),
        "level_1": pairs((0, 0), (0, 1), (1, 0), (1, 1), (2, 1)),
        "level_2": pairs((0, 0), (2, 1)),
        "vertices": np.array([5, 400]),
        "one_level": pairs((0, 0), (1, 0), (2, 1)),
        "values": 3.0,
        "messages": 1.0,
        "cost": {False: StartUp(2.5, 4096.0, 2048.0, {}), True: StartUp(0.5, 1000.0, 500.0, {})},
        "mesh_vertices": 405,
        "needed_factor": 0.1,
        "approximated": (),
    }
    return LinkPartners(**{**values, **changes})


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
