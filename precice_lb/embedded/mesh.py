"""Meshes as one participant sees them, with their fields, what is exchanged of these, and which rank has what.

They travel between participants by gather, one connection between the primary ranks, and scatter: preCICE's
gather-scatter (``m2n/GatherScatterCommunication.cpp``). Of a received mesh each rank keeps what its
mappings need (``partition/ProvidedPartition.cpp`` and ``ReceivedPartition.cpp``, one-level initialisation).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import Configuration
from precice_lb.embedded.communication import Arrays, Connection, IntraComm
from precice_lb.embedded.timeline import Array, CouplingError, Waveform

if TYPE_CHECKING:
    from precice_lb.embedded.files import Profiler
    from precice_lb.embedded.mapping import Mapping


class VertexPartition:
    """Which of a mesh's vertices each rank holds.

    At the provider, whose vertices are numbered rank after rank, `size` are this rank's; elsewhere `size` are all and
    `mine` the indices of this rank's, rising.
    """

    def __init__(self, intra: IntraComm, size: int, mine: NDArray[np.int64] | None = None) -> None:
        self.whole_size = size
        self._is_shared = mine is not None
        #: By rank: slices or indices.
        self._rows: list[Any]
        if mine is not None:
            self._rows = [indices.astype(np.int64) for (indices,) in intra.gather([mine.astype(np.float64)])]
        else:
            sizes = [int(count) for (count,) in intra.gather([np.array(float(size))])]
            self.whole_size = sum(sizes)
            self._rows = [slice(end - size, end) for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]

    def part(self, whole: Array, rank: int) -> Array:
        """Rows of a rank in an array of all vertices, at the primary rank; a view for the provider of the mesh."""
        rows: Array = whole[self._rows[rank]]
        return rows

    def part_of_owner(self, whole: Array, rank: int) -> Array:
        """Return the rank's rows of a received mesh if it is the first rank that has any, else zeros."""
        rows = self.part(whole, rank)
        return rows if not any(map(len, self._rows[:rank])) else np.zeros_like(rows)

    def put(self, whole: Array, part: Array, rank: int, *, add: bool) -> None:
        """Put a rank's rows into an array of all vertices; of a received mesh several ranks may have the same one."""
        rows = self._rows[rank]
        whole[rows] = whole[rows] + part if add and self._is_shared else part


def gather(
    intra: IntraComm, partitions: Sequence[VertexPartition], local: Sequence[Array], *, add: bool = True
) -> list[Array]:
    """Bring samples of all ranks to the primary rank; those of shared vertices are added up, or all the same.

    As preCICE's ``m2n/GatherScatterCommunication.cpp`` does; other ranks get arrays without a meaning.
    """
    if not intra.is_parallel:
        return list(local)
    wholes = [np.zeros((p.whole_size, s.shape[1])) for p, s in zip(partitions, local, strict=True)]
    for rank, parts in enumerate(intra.gather(list(local))):
        for partition, whole, part in zip(partitions, wholes, parts, strict=True):
            partition.put(whole, part, rank, add=add)
    return wholes


class Field:
    """One data on one mesh: its values in time, and what the solver has written since the last ``advance``."""

    def __init__(self, mesh: LocalMesh, data: str, components: int, degree: int) -> None:
        self.mesh = mesh
        self.data = data
        self.components = components
        self.waveform = Waveform(degree)
        self._written = np.zeros((0, components))

    @property
    def written(self) -> Array:
        """What the solver has written, shape (vertices, components), zero where it has not."""
        if (missing := self.mesh.size - len(self._written)) > 0:
            self._written = np.concatenate([self._written, np.zeros((missing, self.components))])
        return self._written

    def take_written(self, time: float | None) -> None:
        """Turn what was written into the sample at a time, if there is one, and start from zeros again, as preCICE."""
        if time is not None:
            self.waveform.put(time, self.written)
        # A new array, since the old one may be the sample of a waveform or on its way to a partner.
        self._written = np.zeros((self.mesh.size, self.components))


@dataclasses.dataclass(eq=False)
class CouplingData:
    """A field with how it is exchanged (all samples or the last, also initially) and its last coupling iteration."""

    field: Field
    substeps: bool
    initialize: bool
    previous: Waveform = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.store_iteration()

    @property
    def entries(self) -> int:
        """Numbers that make one sample on this rank."""
        return self.field.mesh.size * self.field.components

    def store_iteration(self) -> None:
        """Remember the samples for the next iteration."""
        self.previous = copy.copy(self.field.waveform)


class LocalMesh:
    """One mesh that this participant provides or receives; of the latter a rank has the vertices that it needs."""

    def __init__(self, name: str, dimensions: int, provider: str, provided: bool) -> None:
        self.name = name
        self.dimensions = dimensions
        self.provider = provider
        self.provided = provided
        self.fields: dict[str, Field] = {}
        self.partition: VertexPartition
        self.size = 0
        # Pieces, joined when they are needed: solvers may set thousands of vertices one by one.
        self._pieces = [np.zeros((0, dimensions))]

    @property
    def coordinates(self) -> Array:
        """Vertices of this rank, shape (size, dimensions)."""
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def add_vertices(self, positions: Array) -> NDArray[np.int32]:
        """Append vertices, shape (n, dimensions), and return their ids, shape (n,)."""
        first = self.size
        self.size += len(positions)
        self._pieces.append(positions)
        return np.arange(first, self.size, dtype=np.int32)


class Links:
    """The links of one participant to all its partners, and what they have in common."""

    def __init__(self, intra: IntraComm, channels: dict[str, Connection], profiler: Profiler) -> None:
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

    @contextlib.contextmanager
    def failure_kept(self) -> Iterator[None]:
        """Keep a failure at the primary rank for all ranks: their next agreement raises it."""
        try:
            yield
        except CouplingError as error:
            self._failure = str(error)

    def send(self, partner: str, arrays: Sequence[Array]) -> None:
        """Send from the primary rank to a partner's; a failure is kept for all ranks."""
        if self.intra.is_primary and self._failure is None:
            with self.failure_kept():
                self._channels[partner].send(arrays)

    def receive(self, partner: str, part: Callable[[Arrays, int], Arrays] = lambda message, rank: message) -> Arrays:
        """Wait for a partner's message at the primary rank, and return this rank's part of it, by default all.

        A `CouplingError` on all ranks if the partner is gone.
        """
        message: Arrays = []
        if self.intra.is_primary and self._failure is None:
            with self.failure_kept():
                message = self._channels[partner].receive()
        self._agreed = True
        return self.intra.scatter(lambda rank: part(message, rank), self._failure)

    def send_data(self, partner: str, data: Sequence[CouplingData]) -> None:
        """Send of each data its times and all samples side by side, or only the latest one without ``substeps``."""
        with self.profiler.event("waitAndSendData"):
            series = [one.field.waveform.samples[0 if one.substeps else -1 :] for one in data]
            samples = [np.hstack([sample for _, sample in samples]) for samples in series]
            wholes = gather(self.intra, [one.field.mesh.partition for one in data], samples)
            times = [np.array([time for time, _ in samples]) for samples in series]
            self.send(partner, [array for pair in zip(times, wholes, strict=True) for array in pair])

    def receive_data(self, partner: str, data: Sequence[CouplingData], time: float) -> None:
        """Wait for the samples of each data and store them: at a time (simulated seconds) without ``substeps``."""

        def part(message: Arrays, rank: int) -> Arrays:
            parts: Arrays = []
            for one, times, whole in zip(data, message[::2], message[1::2], strict=True):
                parts += [times, one.field.mesh.partition.part(whole, rank)]
            return parts

        with self.profiler.event("waitAndReceiveData"):
            message = self.receive(partner, part)
            for one, times, samples in zip(data, message[::2], message[1::2], strict=True):
                if one.substeps:
                    one.field.waveform.clear()
                moments = times.tolist() if one.substeps else [time]
                for moment, sample in zip(moments, np.hsplit(samples, len(moments)), strict=True):
                    one.field.waveform.put(moment, sample)

    def receive_number(self, partner: str) -> float:
        """Wait for one number, on all ranks."""
        return float(self.receive(partner)[0][0])


def exchange_meshes(
    configuration: Configuration,
    participant: str,
    links: Links,
    meshes: Sequence[LocalMesh],
    mappings: Sequence[Mapping],
) -> None:
    """Send provided meshes to whoever receives them, receive the others and divide them among the ranks.

    A `CouplingError` on all ranks: if a mesh is empty, if a partner is gone. The geometric filter has no effect: of a
    received mesh every rank keeps what its mappings need.
    """
    intra = links.intra
    # All participants go by the names, as in preCICE: two that provide meshes to each other would else both wait.
    for mesh in sorted(meshes, key=lambda mesh: mesh.name):
        if not mesh.provided:
            (whole,) = links.receive(mesh.provider)
            mine = np.arange(len(whole))
            if intra.is_parallel:
                needed = [mapping.needed(whole) for mapping in mappings if mapping.searched is mesh]
                mine = np.unique(np.concatenate([mine[:0], *needed]))
            mesh.add_vertices(whole[mine])
            mesh.partition = VertexPartition(intra, len(whole), mine)
            continue
        mesh.partition = VertexPartition(intra, mesh.size)
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
