"""Whether meshes are those of one run of the case."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners.links import Link
from precice_lb.partners.meshes import PartitionedMesh

__all__ = ["check_meshes"]


def check_meshes(
    links: tuple[Link, ...], meshes: Mapping[str, PartitionedMesh], regions: Mapping[str, NDArray[np.float64]]
) -> dict[str, int]:
    """Check that the meshes are those of the case, and count each participant's ranks."""
    ranks: dict[str, int] = {}
    sizes = {mesh.name: (mesh.participant, mesh.ranks) for mesh in meshes.values()}
    sizes |= {
        f"access region of {link.mesh}": (link.receiver, len(regions[link.mesh]))
        for link in links
        if link.mesh in regions
    }
    for name, (participant, count) in sizes.items():
        if ranks.setdefault(participant, count) != count:
            raise DataError(
                f"expected all meshes of {participant} on the same ranks, found {ranks[participant]} and {count} (mesh "
                f'"{name}"); give the files of all ranks of one run'
            )
    for link in links:
        found = meshes.get(link.mesh)
        if found is None or found.participant != link.provider:
            raise DataError(
                f'expected mesh "{link.mesh}" of {link.provider}, found {", ".join(meshes) or "no mesh"}; give the '
                "meshes of all participants, of this case"
            )
        if found.dimensions != link.dimensions:
            raise DataError(
                f'expected mesh "{link.mesh}" in {link.dimensions} dimensions, found {found.dimensions} in '
                f"{found.source or 'the data'}; give meshes of this case"
            )
    return ranks
