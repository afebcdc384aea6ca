"""Meshes travel to the participants that receive them, and each rank keeps what its mappings need.

As preCICE's ``partition/ProvidedPartition.cpp`` and ``ReceivedPartition.cpp`` (one-level initialisation).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.m2n import Links
from precice_lb.embedded.mapping import NearestNeighbour, expanded_box, inside, nearest_neighbours
from precice_lb.embedded.mesh import Mesh, Partition
from precice_lb.precice_xml import Configuration

__all__ = ["exchange_meshes"]


def exchange_meshes(
    configuration: Configuration, participant: str, links: Links, mappings: list[NearestNeighbour]
) -> None:
    """Send provided meshes to whoever receives them, receive the others and divide them among the ranks.

    Parameters
    ----------
    configuration
        The whole configuration: who receives which mesh, and with which geometric filter.
    participant
        Name of this participant.
    links
        Its links, with its meshes.
    mappings
        Its mappings: they say what each rank needs.

    Raises
    ------
    CouplingError
        On all ranks: if a mesh is empty, if a rank's part of a mesh is filtered out, or if a partner is gone.
    """
    meshes = sorted(links.meshes.values(), key=lambda mesh: mesh.name)
    for mesh in meshes:
        if mesh.provided:
            mesh.partition = Partition(links.intra, None, mesh.size)
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
            whole = _receive(mesh, links)
            _keep(mesh, whole, factor, [m for m in mappings if m.source is mesh], links.intra)


def _send(mesh: Mesh, partition: Partition, receivers: list[str], links: Links) -> None:
    whole = np.empty((partition.whole_size, mesh.dimensions))
    links.intra.gather([mesh.coordinates], lambda rank: [partition.part(whole, rank)])
    empty = bool(receivers) and links.intra.is_primary and len(whole) == 0
    links.intra.agree(
        f'the provided mesh "{mesh.name}" is empty: set its vertices on some rank before initialize()'
        if empty
        else None
    )
    for receiver in receivers:
        links.send(receiver, [np.array([[float(len(whole))]])])
        links.send(receiver, [whole])


def _receive(mesh: Mesh, links: Links) -> NDArray[np.float64]:
    size = np.zeros((1, 1))
    links.receive(mesh.provider, [size])
    whole = np.empty((int(size[0, 0]), mesh.dimensions))
    links.receive(mesh.provider, [whole])
    # Waiting here, not in the broadcast, costs the other ranks no processor time.
    links.intra.agree(None)
    result: NDArray[np.float64] = links.intra.broadcast(whole)
    return result


def _keep(
    mesh: Mesh,
    whole: NDArray[np.float64],
    safety_factor: float | None,
    read_mappings: list[NearestNeighbour],
    intra: IntraComm,
) -> None:
    if not intra.is_parallel:
        mesh.add_vertices(whole)
        mesh.partition = Partition(intra, np.arange(len(whole)), len(whole), len(whole))
        return
    candidates = np.arange(len(whole))
    targets = [mapping.target.coordinates for mapping in read_mappings]
    if safety_factor is not None:
        boxes = [expanded_box(target, safety_factor) for target in targets]
        merged = [box for box in boxes if box is not None]
        union = np.stack([np.min(merged, axis=0)[0], np.max(merged, axis=0)[1]]) if merged else None
        candidates = np.flatnonzero(inside(whole, union))
    filtered_out = len(candidates) == 0 and any(len(target) for target in targets)
    intra.agree_all(
        f'the geometric filter left nothing of the received mesh "{mesh.name}" on rank {intra.rank}: do the coupling '
        'interfaces match? If so, raise its safety-factor or set geometric-filter="no-filter"'
        if filtered_out
        else None
    )
    needed = [candidates[nearest_neighbours(target, whole[candidates])] for target in targets]
    mine = np.unique(np.concatenate(needed)) if needed else np.empty(0, dtype=np.int64)
    mesh.add_vertices(whole[mine])
    mesh.partition = Partition(intra, mine, len(mine), len(whole))
