"""Meshes as one participant sees them, with their fields, what is exchanged of these, and which rank has what."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.communication import IntraComm
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.timeline import Waveform

__all__ = ["CouplingData", "Field", "Mesh", "Partition", "gather"]

Array = NDArray[np.float64]


class Partition:
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
            self._rows = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]

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
    intra: IntraComm, partitions: Sequence[Partition], local: Sequence[Array], *, add: bool = True
) -> list[Array]:
    """Bring samples of all ranks to the primary rank; those of shared vertices are added up, or all the same.

    As preCICE's ``m2n/GatherScatterCommunication.cpp`` does; other ranks get arrays without a meaning.
    """
    wholes = [np.zeros((p.whole_size, s.shape[1])) for p, s in zip(partitions, local, strict=True)]
    for rank, parts in enumerate(intra.gather(list(local))):
        for partition, whole, part in zip(partitions, wholes, parts, strict=True):
            partition.put(whole, part, rank, add=add)
    return wholes


class Field:
    """One data on one mesh: its values in time, and what the solver has written since the last ``advance``."""

    def __init__(self, mesh: Mesh, data: str, components: int, degree: int) -> None:
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
        self.previous = self.field.waveform.copy()


class Mesh:
    """One mesh that this participant provides or receives; of the latter a rank has the vertices that it needs."""

    def __init__(self, name: str, dimensions: int, provider: str, provided: bool) -> None:
        self.name = name
        self.dimensions = dimensions
        self.provider = provider
        self.provided = provided
        self.locked = False
        self.fields: dict[str, Field] = {}
        self.partition: Partition
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

    def check_ids(self, vertex_ids: NDArray[np.int32], call: str, data: str) -> None:
        """Refuse ids that this rank's mesh does not have."""
        if len(vertex_ids) and (vertex_ids.min() < 0 or vertex_ids.max() >= self.size):
            position = int(np.flatnonzero((vertex_ids < 0) | (vertex_ids >= self.size))[0])
            raise CouplingError(
                f'cannot {call} data "{data}" on mesh "{self.name}": invalid vertex id {vertex_ids[position]} at '
                f"vertices[{position}], expected ids in [0, {self.size}) from set_mesh_vertex or set_mesh_vertices"
            )
