"""The receiver's box of each rank, as preCICE prepares it before it compares boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners.level1 import check_boxes, scaled_boxes
from precice_lb.partners.links import Link
from precice_lb.partners.meshes import PartitionedMesh

__all__ = ["receiver_boxes"]


def receiver_boxes(
    link: Link, local: Mapping[str, PartitionedMesh], region: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Boxes of the receiver's ranks, shape (ranks, dimensions, 2), that are compared with those of the provider's.

    The union over the mappings of the local mesh's box, enlarged by the safety factor times its own longest edge, and
    of the access region, enlarged likewise only where there is a just-in-time mapping; NaN for an empty rank.
    preCICE 3.4, ``ReceivedPartition::prepareBoundingBox``.
    """
    parts: list[NDArray[np.float64]] = []
    for mapping in link.mappings:
        if mapping.local is not None:
            mesh = _local_mesh(link, local, mapping.local)
            parts.append(scaled_boxes(mesh.boxes, link.safety_factor))
    if link.api_access and region is not None:
        checked = check_boxes(region, f"access regions of {link.title}")
        parts.append(scaled_boxes(checked, link.safety_factor) if link.just_in_time else checked)
    if not parts:
        raise DataError(
            f"{link.title}: expected access regions, as no mapping ties the mesh to one of {link.receiver}'s own, "
            "found none; record the run, which keeps them, or give them"
        )
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise DataError(
            f"{link.title}: expected meshes of {link.receiver} with the same ranks and dimensions, found "
            f"{' and '.join(f'{s[0]} ranks in {s[1]} dimensions' for s in sorted(shapes))}; give meshes of one run"
        )
    union: NDArray[np.float64] = parts[0].copy()
    for part in parts[1:]:
        np.fmin(union[:, :, 0], part[:, :, 0], out=union[:, :, 0])
        np.fmax(union[:, :, 1], part[:, :, 1], out=union[:, :, 1])
    return union


def _local_mesh(link: Link, local: Mapping[str, PartitionedMesh], name: str) -> PartitionedMesh:
    if name not in local:
        raise DataError(
            f'{link.title}: expected mesh "{name}" of {link.receiver}, found {", ".join(local) or "no mesh"}; give the '
            "meshes of all participants of one run"
        )
    mesh = local[name]
    if mesh.dimensions != link.dimensions:
        raise DataError(
            f'{link.title}: expected mesh "{name}" in {link.dimensions} dimensions, found {mesh.dimensions} in '
            f"{mesh.source or 'the data'}; give meshes of this case"
        )
    return mesh
