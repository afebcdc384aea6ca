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


def judge(spec: Spec, truth: dict[str, Any]) -> dict[str, Any]:
    """Compare a case with what libprecice made of it."""
    meshes = meshes_of(spec)
    expected: Counter[tuple[int, int]] = Counter({(0, 0): 1})
    wrong, open_choices, pairs_equal, exact = [], 0, True, True
    for link, region in links_and_regions(spec):
        provider = meshes[link.mesh]
        needs = needed_vertices(link, provider, meshes, region)
        open_choices += needs.open_choices
        if link.two_level:
            pairs = overlapping_pairs(provider.boxes, receiver_boxes(link, meshes, region))
        else:
            pairs, _ = needs.pairs(provider)
        for a, b in pairs.tolist():
            expected[(a, b) if link.provider == "A" else (b, a)] += 1
        owners = provider.rank_of
        told = {(int(owners[v]), rank) for rank, kept in enumerate(truth["kept"][link.mesh]) for v in kept}
        pairs_equal &= {(int(a), int(b)) for a, b in needs.pairs(provider)[0]} == told
        for rank, kept in enumerate(truth["kept"][link.mesh]):
            found = needs.vertices[needs.ranks == rank].tolist()
            if found != kept:
                exact = False
                wrong.append((link.mesh, rank, sorted(set(kept) - set(found)), sorted(set(found) - set(kept))))
    measured = {(a, b): n for a, b, n in truth["connections"]}
    return {
        "level_1": dict(expected) == measured,
        "level_2": pairs_equal,
        "vertices": exact,
        "open": open_choices,
        "wrong": wrong,
        "expected": dict(expected),
        "measured": measured,
    }
