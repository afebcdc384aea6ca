"""Meshes and fields travel between participants: gather, one connection between the primary ranks, scatter.

preCICE calls this gather-scatter (``m2n/GatherScatterCommunication.cpp``). Of a received mesh each rank keeps what its
mappings need (``partition/ProvidedPartition.cpp`` and ``ReceivedPartition.cpp``, one-level initialisation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.communication import Channel, IntraComm
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.files import Profiler
from precice_lb.embedded.mapping import Mapping
from precice_lb.embedded.mesh import CouplingData, Mesh, Partition, gather
from precice_lb.precice_xml import Configuration

__all__ = ["Links", "exchange_meshes", "expanded_box", "inside"]

Array = NDArray[np.float64]
Arrays = list[Array]


class Links:
    """The links of one participant to all its partners, and what they have in common."""

    def __init__(self, intra: IntraComm, channels: dict[str, Channel], profiler: Profiler) -> None:
        self.intra = intra
        self.profiler = profiler
        self._channels = channels
        self._failure: str | None = None
        self._agreed = False

    def end_phase(self) -> None:
        """Raise the primary rank's failure on all ranks, if no receiving has done so since the phase before."""
        agreed, self._agreed = self._agreed, False
        if not agreed:
            self.intra.agree(self._failure)

    def send(self, partner: str, arrays: Sequence[Array]) -> None:
        """Send from the primary rank to a partner's, without waiting; a failure is kept for all ranks."""
        if self.intra.is_primary and self._failure is None:
            try:
                self._channels[partner].send(arrays)
            except CouplingError as error:
                self._failure = str(error)

    def receive(self, partner: str) -> Arrays:
        """Wait for a partner's message at the primary rank; a `CouplingError` on all ranks if it is gone.

        The other ranks go on at once, with nothing: they must wait for the primary rank next, in ``scatter``,
        ``broadcast`` or ``agree``, which raises there what is raised here.
        """
        self._agreed = True
        arrays: Arrays = []
        if not self.intra.is_primary:
            return arrays
        if self._failure is None:
            try:
                arrays = self._channels[partner].receive()
            except CouplingError as error:
                self._failure = str(error)
        if self._failure is not None:
            self.intra.agree(self._failure)
        return arrays

    def send_data(self, partner: str, data: Sequence[CouplingData]) -> None:
        """Send of each data its times and all samples, or only the latest ones without ``substeps``."""
        with self.profiler.event("waitAndSendData"):
            samples = [
                [sample for _, sample in one.field.waveform.samples] if one.substeps else [one.field.waveform.last]
                for one in data
            ]
            if self.intra.is_parallel:
                partitions = [one.field.mesh.partition for one, own in zip(data, samples, strict=True) for _ in own]
                wholes = iter(gather(self.intra, partitions, [s for own in samples for s in own]))
                samples = [[next(wholes) for _ in own] for own in samples]
            message: Arrays = []
            for one, own in zip(data, samples, strict=True):
                message += [np.array(one.field.waveform.times[-len(own) :]), *own]
            self.send(partner, message)

    def receive_data(self, partner: str, data: Sequence[CouplingData], time: float) -> None:
        """Wait for the samples of each data and store them: at a time (simulated seconds) without ``substeps``."""
        with self.profiler.event("waitAndReceiveData"):
            message = iter(self.intra.scatter(self._parts(self.receive(partner), data)))
            for one in data:
                times = next(message).tolist() if one.substeps else [time] * len(next(message))
                if one.substeps:
                    one.field.waveform.clear()
                for moment in times:
                    one.field.waveform.put(moment, next(message))

    def _parts(self, message: Arrays, data: Sequence[CouplingData]) -> Callable[[int], Arrays]:
        """Return what each rank gets of a message, for the primary rank, which alone has it."""
        if not self.intra.is_parallel:
            return lambda rank: message
        owners: list[Partition | None] = []
        for one in data if message else ():
            owners += [None, *[one.field.mesh.partition] * len(message[len(owners)])]
        return lambda rank: [
            part if owner is None else owner.part(part, rank) for part, owner in zip(message, owners, strict=True)
        ]

    def send_number(self, partner: str, number: float) -> None:
        """Send one number that all ranks know."""
        self.send(partner, [np.array([number])])

    def receive_number(self, partner: str) -> float:
        """Wait for one number, on all ranks."""
        return float(self.intra.broadcast(self.receive(partner))[0][0])

    def send_convergence(self, partner: str, converged: bool) -> None:
        """Say whether an iteration has converged."""
        with self.profiler.event("sendConvergence"):
            self.send_number(partner, float(converged))

    def receive_convergence(self, partner: str) -> bool:
        """Wait to hear whether an iteration has converged."""
        with self.profiler.event("receiveConvergence"):
            return bool(self.receive_number(partner))


def exchange_meshes(
    configuration: Configuration, participant: str, links: Links, meshes: Sequence[Mesh], mappings: Sequence[Mapping]
) -> None:
    """Send provided meshes to whoever receives them, receive the others and divide them among the ranks.

    A `CouplingError` on all ranks: if a mesh is empty, if a rank's part of it is filtered out, if a partner is gone.
    """
    intra = links.intra
    meshes = sorted(meshes, key=lambda mesh: mesh.name)
    for mesh in meshes:
        if not mesh.provided:
            continue
        mesh.partition = Partition(intra, mesh.size)
        (whole,) = gather(intra, [mesh.partition], [mesh.coordinates])
        receivers = [
            other.name
            for other in configuration.participants.values()
            if any((r.name, r.provider) == (mesh.name, participant) for r in other.receives)
        ]
        empty = f'the provided mesh "{mesh.name}" is empty: set its vertices on some rank before initialize()'
        intra.agree(empty if receivers and len(whole) == 0 else None)
        for receiver in receivers:
            links.send(receiver, [whole])
    for mesh in meshes:
        if not mesh.provided:
            received = next(r for r in configuration.participants[participant].receives if r.name == mesh.name)
            factor = None if received.geometric_filter == "no-filter" else received.safety_factor
            (whole,) = intra.broadcast(links.receive(mesh.provider))
            _keep(mesh, whole, factor, [mapping for mapping in mappings if mapping.searched is mesh], intra)


def _keep(mesh: Mesh, whole: Array, safety_factor: float | None, mappings: list[Mapping], intra: IntraComm) -> None:
    size = len(whole)
    if not intra.is_parallel:
        mesh.add_vertices(whole)
        mesh.partition = Partition(intra, size, np.arange(size))
        return
    candidates = np.arange(size)
    origins = [mapping.origins.coordinates for mapping in mappings if mapping.origins.size]
    if safety_factor is not None and all(mapping.filters for mapping in mappings):
        boxes = [expanded_box(vertices, safety_factor) for vertices in origins]
        candidates = np.flatnonzero(inside(whole, boxes))
    problem = (
        f'the geometric filter left nothing of the received mesh "{mesh.name}" on rank {intra.rank}: do the coupling '
        'interfaces match? If so, raise its safety-factor or set geometric-filter="no-filter"'
    )
    intra.agree_all(problem if origins and len(candidates) == 0 else None)
    needed = [candidates[mapping.needed(whole[candidates])] for mapping in mappings]
    mine = np.unique(np.concatenate([candidates[:0], *needed]))
    mesh.add_vertices(whole[mine])
    mesh.partition = Partition(intra, size, mine)


def expanded_box(coordinates: Array, safety_factor: float) -> Array:
    """Lower and upper corner of vertices, every side moved out by the factor times the longest (BoundingBox.cpp)."""
    box = np.stack([coordinates.min(axis=0), coordinates.max(axis=0)])
    margin = safety_factor * float((box[1] - box[0]).max())
    box += np.array([[-margin], [margin]])
    return box


def inside(coordinates: Array, boxes: Sequence[Array]) -> NDArray[np.bool_]:
    """Which vertices, shape (n, dimensions), lie in the smallest closed box around others; none without any."""
    if not boxes:
        return np.zeros(len(coordinates), dtype=bool)
    low, high = np.min(boxes, axis=0)[0], np.max(boxes, axis=0)[1]
    result: NDArray[np.bool_] = ((coordinates >= low) & (coordinates <= high)).all(axis=1)
    return result
