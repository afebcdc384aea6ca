"""Meshes travel to the participants that receive them, and each rank keeps what its mappings need.

As preCICE's ``partition/ProvidedPartition.cpp`` and ``ReceivedPartition.cpp`` (one-level initialisation).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.m2n import Links
from precice_lb.embedded.mapping import Mapping
from precice_lb.embedded.mesh import Mesh, Partition, gather
from precice_lb.precice_xml import Configuration

__all__ = ["exchange_meshes", "expanded_box", "inside"]

Array = NDArray[np.float64]


def exchange_meshes(configuration: Configuration, participant: str, links: Links, mappings: list[Mapping]) -> None:
    """Send provided meshes to whoever receives them, receive the others and divide them among the ranks.

    A `CouplingError` on all ranks: if a mesh is empty, if a rank's part of it is filtered out, if a partner is gone.
    """
    meshes = sorted(links.meshes.values(), key=lambda mesh: mesh.name)
    for mesh in meshes:
        if mesh.provided:
            mesh.partition = Partition(links.intra, mesh.size)
            receivers = [
                other.name
                for other in configuration.participants.values()
                if any((r.name, r.provider) == (mesh.name, participant) for r in other.receives)
            ]
            _send(mesh, mesh.partition, receivers, links)
    for mesh in meshes:
        if not mesh.provided:
            received = next(r for r in configuration.participants[participant].receives if r.name == mesh.name)
            factor = None if received.geometric_filter == "no-filter" else received.safety_factor
            (whole,) = links.intra.broadcast(links.receive(mesh.provider))
            _keep(mesh, whole, factor, [m for m in mappings if m.searched is mesh], links.intra)


def _send(mesh: Mesh, partition: Partition, receivers: list[str], links: Links) -> None:
    (whole,) = gather(links.intra, [partition], [mesh.coordinates])
    empty = bool(receivers) and links.intra.is_primary and len(whole) == 0
    links.intra.agree(
        f'the provided mesh "{mesh.name}" is empty: set its vertices on some rank before initialize()'
        if empty
        else None
    )
    for receiver in receivers:
        links.send(receiver, [whole])


def _keep(mesh: Mesh, whole: Array, safety_factor: float | None, mappings: list[Mapping], intra: IntraComm) -> None:
    size = len(whole)
    if not intra.is_parallel:
        mesh.add_vertices(whole)
        mesh.partition = Partition(intra, size, np.arange(size))
        return
    candidates = np.arange(size)
    origins = [mapping.origins.coordinates for mapping in mappings]
    if safety_factor is not None and all(mapping.filters for mapping in mappings):
        boxes = [expanded_box(vertices, safety_factor) for vertices in origins]
        merged = [box for box in boxes if box is not None]
        union = np.stack([np.min(merged, axis=0)[0], np.max(merged, axis=0)[1]]) if merged else None
        candidates = np.flatnonzero(inside(whole, union))
    filtered_out = len(candidates) == 0 and any(len(vertices) for vertices in origins)
    intra.agree_all(
        f'the geometric filter left nothing of the received mesh "{mesh.name}" on rank {intra.rank}: do the coupling '
        'interfaces match? If so, raise its safety-factor or set geometric-filter="no-filter"'
        if filtered_out
        else None
    )
    needed = [candidates[mapping.needed(whole[candidates])] for mapping in mappings]
    mine = np.unique(np.concatenate(needed)) if needed else np.empty(0, dtype=np.int64)
    mesh.add_vertices(whole[mine])
    mesh.partition = Partition(intra, size, mine)


def expanded_box(coordinates: Array, safety_factor: float) -> Array | None:
    """Lower and upper corner of a rank's vertices, every side moved out by the factor times the longest edge.

    As ``mesh/BoundingBox.cpp``; None for a rank without vertices, which contains nothing.
    """
    if len(coordinates) == 0:
        return None
    box = np.stack([coordinates.min(axis=0), coordinates.max(axis=0)])
    margin = safety_factor * float((box[1] - box[0]).max())
    box[0] -= margin
    box[1] += margin
    return box


def inside(coordinates: Array, box: Array | None) -> NDArray[np.bool_]:
    """Which vertices, shape (n, dimensions), lie in a closed box; None contains nothing."""
    if box is None:
        return np.zeros(len(coordinates), dtype=bool)
    result: NDArray[np.bool_] = ((coordinates >= box[0]) & (coordinates <= box[1])).all(axis=1)
    return result
