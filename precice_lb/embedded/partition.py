"""Meshes travel to the participants that receive them, and each rank keeps what its mappings need.

As preCICE's ``partition/ProvidedPartition.cpp`` and ``ReceivedPartition.cpp`` (one-level initialisation).
"""

from __future__ import annotations

import numpy as np

from precice_lb.embedded.geometry import Geometry
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.m2n import Links
from precice_lb.embedded.mapping import Mapping
from precice_lb.embedded.mesh import Mesh, Partition
from precice_lb.embedded.neighbours import expanded_box, inside
from precice_lb.precice_xml import Configuration

__all__ = ["exchange_meshes"]


def exchange_meshes(configuration: Configuration, participant: str, links: Links, mappings: list[Mapping]) -> None:
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
            _keep(mesh, whole, factor, [m for m in mappings if m.searched is mesh], links.intra)


def _send(mesh: Mesh, partition: Partition, receivers: list[str], links: Links) -> None:
    intra = links.intra
    geometry = mesh.geometry().completed()
    whole = np.empty((partition.whole_size, mesh.dimensions))
    intra.gather([mesh.coordinates], lambda rank: [partition.part(whole, rank)])
    empty = bool(receivers) and intra.is_primary and len(whole) == 0
    intra.agree(
        f'the provided mesh "{mesh.name}" is empty: set its vertices on some rank before initialize()'
        if empty
        else None
    )
    if not receivers:
        return
    edges, triangles = geometry.edges, geometry.triangles
    if mesh.needs_connectivity and (parts := intra.collect((mesh.size, edges, triangles))) is not None:
        starts = np.cumsum([0, *(size for size, _, _ in parts)])[:-1]
        edges = np.concatenate([part[1] + start for part, start in zip(parts, starts, strict=True)])
        triangles = np.concatenate([part[2] + start for part, start in zip(parts, starts, strict=True)])
    for receiver in receivers:
        links.send(receiver, [np.array([[len(whole), len(edges), len(triangles)]], dtype=np.float64)])
        links.send(receiver, [whole, edges.astype(np.float64), triangles.astype(np.float64)])


def _receive(mesh: Mesh, links: Links) -> Geometry:
    sizes = np.zeros((1, 3))
    links.receive(mesh.provider, [sizes])
    vertices, edges, triangles = sizes[0].astype(int).tolist()
    received = [np.empty((vertices, mesh.dimensions)), np.empty((edges, 2)), np.empty((triangles, 3))]
    links.receive(mesh.provider, received)
    # Waiting here, not in the broadcast, costs the other ranks no processor time.
    links.intra.agree(None)
    received = links.intra.broadcast(received)
    return Geometry(received[0], received[1].astype(np.int64), received[2].astype(np.int64))


def _keep(
    mesh: Mesh,
    whole: Geometry,
    safety_factor: float | None,
    mappings: list[Mapping],
    intra: IntraComm,
) -> None:
    size = len(whole.vertices)
    if not intra.is_parallel:
        _fill(mesh, whole)
        mesh.partition = Partition(intra, np.arange(size), size, size)
        return
    candidates = np.arange(size)
    origins = [mapping.origins.coordinates for mapping in mappings]
    if safety_factor is not None and all(mapping.filters for mapping in mappings):
        boxes = [expanded_box(vertices, safety_factor) for vertices in origins]
        merged = [box for box in boxes if box is not None]
        union = np.stack([np.min(merged, axis=0)[0], np.max(merged, axis=0)[1]]) if merged else None
        candidates = np.flatnonzero(inside(whole.vertices, union))
    filtered_out = len(candidates) == 0 and any(len(vertices) for vertices in origins)
    intra.agree_all(
        f'the geometric filter left nothing of the received mesh "{mesh.name}" on rank {intra.rank}: do the coupling '
        'interfaces match? If so, raise its safety-factor or set geometric-filter="no-filter"'
        if filtered_out
        else None
    )
    filtered = whole.restricted(candidates)
    needed = [candidates[mapping.needed(filtered)] for mapping in mappings]
    mine = np.unique(np.concatenate(needed)) if needed else np.empty(0, dtype=np.int64)
    _fill(mesh, whole.restricted(mine))
    mesh.partition = Partition(intra, mine, len(mine), size)


def _fill(mesh: Mesh, geometry: Geometry) -> None:
    mesh.add_vertices(geometry.vertices)
    mesh.add_elements(geometry.edges)
    mesh.add_elements(geometry.triangles)
