"""Meshes as one participant sees them, with their fields and where their vertices are among the ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.geometry import Geometry
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.waveform import Waveform

__all__ = ["Field", "Mesh", "Partition", "gather"]


class Partition:
    """Which of a mesh's vertices each rank holds.

    Parameters
    ----------
    intra
        The ranks of this participant.
    mine
        Global indices of this rank's vertices, shape (n,), rising; None for the provider of the mesh, whose vertices
        are numbered rank after rank.
    size
        Number of this rank's vertices.
    whole_size
        Number of vertices of the whole mesh, None to count them (provider).

    Attributes
    ----------
    whole_size
        Number of vertices of the whole mesh; at the primary rank.
    """

    def __init__(
        self, intra: IntraComm, mine: NDArray[np.int64] | None, size: int, whole_size: int | None = None
    ) -> None:
        self.size = size
        self.whole_size = whole_size or 0
        self._ends: list[int] = []
        self._indices: list[NDArray[np.int64]] | None = None
        collected = intra.collect(size if mine is None else mine)
        if collected is None:
            return
        if mine is None:
            self._ends = [0, *np.cumsum(collected).tolist()]
            self.whole_size = self._ends[-1]
        else:
            self._indices = collected

    def part(self, whole: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
        """Rows of a rank in an array of all vertices, at the primary rank; a view for the provider of the mesh."""
        if self._indices is None:
            return whole[self._ends[rank] : self._ends[rank + 1]]
        return whole[self._indices[rank]]

    def part_of_owner(self, whole: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
        """Return the rank's rows of a received mesh if it is the first rank that has any, else zeros."""
        assert self._indices is not None
        owner = next(number for number, indices in enumerate(self._indices) if len(indices))
        rows = self.part(whole, rank)
        return rows if rank == owner else np.zeros_like(rows)

    def gathered(self, whole: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
        """Where a rank's rows go at the primary rank: a view of the whole, or an array for `put_gathered`."""
        if self._indices is None:
            return self.part(whole, rank)
        return np.empty((len(self._indices[rank]), *whole.shape[1:]))

    def put_gathered(self, whole: NDArray[np.float64], part: NDArray[np.float64], rank: int, *, add: bool) -> None:
        """Put in, or add, what a rank has of a received mesh's vertices, which may belong to several ranks."""
        if self._indices is not None:
            whole[self._indices[rank]] = part + (whole[self._indices[rank]] if add else 0.0)


def gather(
    intra: IntraComm, partitions: Sequence[Partition], local: Sequence[NDArray[np.float64]], *, add: bool = True
) -> list[NDArray[np.float64]]:
    """Bring samples of all ranks to the primary rank, where those of shared vertices are added up.

    As preCICE's ``m2n/GatherScatterCommunication.cpp`` does.

    Parameters
    ----------
    intra
        The ranks.
    partitions
        Of each sample.
    local
        Samples of this rank, shape (vertices, components) each.
    add
        False if all ranks have the same at shared vertices.

    Returns
    -------
    list of arrays
        The whole samples; at the primary rank only.
    """
    wholes = [np.zeros((p.whole_size, s.shape[1])) for p, s in zip(partitions, local, strict=True)]
    pieces: dict[int, list[NDArray[np.float64]]] = {}

    def parts(rank: int) -> list[NDArray[np.float64]]:
        pieces[rank] = [p.gathered(whole, rank) for p, whole in zip(partitions, wholes, strict=True)]
        return pieces[rank]

    intra.gather(local, parts)
    for rank, piece in pieces.items():
        for partition, whole, part in zip(partitions, wholes, piece, strict=True):
            partition.put_gathered(whole, part, rank, add=add)
    return wholes


class Field:
    """One data on one mesh: its values in time, and what the solver has written since the last ``advance``.

    Parameters
    ----------
    mesh, data
        Names.
    components
        Numbers per vertex.
    degree
        ``waveform-degree`` of the data.
    """

    def __init__(self, mesh: str, data: str, components: int, degree: int) -> None:
        self.mesh = mesh
        self.data = data
        self.components = components
        self.vertices = 0
        self.waveform = Waveform(degree)
        self._written = np.zeros((0, components))

    @property
    def written(self) -> NDArray[np.float64]:
        """What the solver has written, shape (vertices, components), zero where it has not."""
        if (missing := self.vertices - len(self._written)) > 0:
            self._written = np.concatenate([self._written, np.zeros((missing, self.components))])
        return self._written

    def store_written(self, time: float) -> None:
        """Turn what was written into the sample at a time."""
        self.waveform.put(time, self.written)

    def forget_written(self) -> None:
        """Start from zeros again: preCICE resets what was written in every ``advance``."""
        # A new array, since the old one may be the sample of a waveform or on its way to a partner.
        self._written = np.zeros((self.vertices, self.components))


class Mesh:
    """One mesh that this participant provides or receives.

    Parameters
    ----------
    name, dimensions
        As configured.
    provider
        Name of the participant that provides it.
    provided
        Whether that is this participant.

    Attributes
    ----------
    size
        Number of this rank's vertices; of a received mesh only those that this rank needs.
    """

    def __init__(self, name: str, dimensions: int, provider: str, provided: bool) -> None:
        self.name = name
        self.dimensions = dimensions
        self.provider = provider
        self.provided = provided
        self.locked = False
        self.fields: dict[str, Field] = {}
        self.partition: Partition | None = None
        self.size = 0
        #: Whether a mapping, here or at a participant that receives the mesh, needs its connectivity.
        self.needs_connectivity = False
        self._edges: list[NDArray[np.int64]] = []
        self._triangles: list[NDArray[np.int64]] = []
        # Pieces, joined when they are needed: solvers may set thousands of vertices one by one.
        self._pieces = [np.zeros((0, dimensions))]

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Vertices of this rank, shape (size, dimensions)."""
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def add_vertices(self, positions: NDArray[np.float64]) -> NDArray[np.int32]:
        """Append vertices, shape (n, dimensions), and return their ids, shape (n,)."""
        first = self.size
        self.size += len(positions)
        self._pieces.append(positions)
        for field in self.fields.values():
            field.vertices = self.size
        return np.arange(first, self.size, dtype=np.int32)

    def add_elements(self, corners: NDArray[np.int64]) -> None:
        """Append edges, shape (n, 2), or triangles, shape (n, 3), of valid vertex ids."""
        (self._edges if corners.shape[1] == 2 else self._triangles).append(corners)

    def geometry(self) -> Geometry:
        """Vertices, edges and triangles of this rank."""
        none = np.zeros((0, 3), dtype=np.int64)
        return Geometry(
            self.coordinates,
            np.concatenate([none[:, :2], *self._edges]),
            np.concatenate([none, *self._triangles]),
        )

    def check_ids(self, vertex_ids: NDArray[np.int32], call: str, data: str) -> None:
        """Refuse ids that this rank's mesh does not have.

        Raises
        ------
        CouplingError
            Naming the first invalid position.
        """
        if len(vertex_ids) and (vertex_ids.min() < 0 or vertex_ids.max() >= self.size):
            position = int(np.flatnonzero((vertex_ids < 0) | (vertex_ids >= self.size))[0])
            raise CouplingError(
                f'cannot {call} data "{data}" on mesh "{self.name}": invalid vertex id {vertex_ids[position]} at '
                f"vertices[{position}], expected ids in [0, {self.size}) from set_mesh_vertex or set_mesh_vertices"
            )
