"""Exchange of fields between two participants: gather, one socket between the primary ranks, scatter.

preCICE calls this gather-scatter (``m2n/GatherScatterCommunication.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mesh import Field, Mesh, Partition
from precice_lb.embedded.sockets import Channel

__all__ = ["Link", "Links"]


class Links:
    """The links of one participant to all its partners, and what they have in common.

    Attributes
    ----------
    wait_ns
        Nanoseconds spent in receiving data from partners since it was last set to 0. On a rank other than the primary
        rank: waiting for the primary rank to have it.
    """

    def __init__(self, intra: IntraComm, channels: dict[str, Channel], meshes: dict[str, Mesh]) -> None:
        self.intra = intra
        self.meshes = meshes
        self.wait_ns = 0
        self._channels = channels
        self._failure: str | None = None
        self._agreed = False

    def link(self, partner: str) -> Link:
        """Return the link to one partner."""
        return Link(self, partner)

    def begin(self) -> None:
        """Start a phase (an ``initialize`` or ``advance``) at whose end all ranks know of any failure."""
        self._agreed = False

    def end(self) -> None:
        """Let all ranks know of the primary rank's failure, if no receiving did so in this phase.

        Raises
        ------
        CouplingError
            On all ranks, if a partner is gone.
        """
        if not self._agreed:
            self.intra.agree(self._failure)

    def send(self, partner: str, arrays: Sequence[NDArray[np.float64]]) -> None:
        """Send from the primary rank to a partner's, without waiting; a failure is kept for all ranks."""
        if self.intra.is_primary and self._failure is None:
            try:
                self._channels[partner].send(arrays)
            except CouplingError as error:
                self._failure = str(error)

    def receive(self, partner: str, arrays: Sequence[NDArray[np.float64]]) -> None:
        """Wait for a partner's message at the primary rank.

        The other ranks go on at once: they must wait for the primary rank next, in ``scatter`` or ``agree``, which
        raises there what is raised here.

        Raises
        ------
        CouplingError
            If the partner is gone.
        """
        self._agreed = True
        if not self.intra.is_primary:
            return
        if self._failure is None:
            try:
                self._channels[partner].receive(arrays)
            except CouplingError as error:
                self._failure = str(error)
        if self._failure is not None:
            self.intra.agree(self._failure)


class Link:
    """The link to one partner."""

    def __init__(self, links: Links, partner: str) -> None:
        self._links = links
        self._partner = partner

    def send(self, fields: Sequence[Field]) -> None:
        """Send the latest sample of each field."""
        if not fields:
            return
        local = [field.waveform.last for field in fields]
        if not self._links.intra.is_parallel:
            self._links.send(self._partner, local)
            return
        partitions = [self._partition(field) for field in fields]
        wholes = self._wholes(fields)
        self._links.intra.gather(local, lambda rank: [p.part(w, rank) for p, w in zip(partitions, wholes, strict=True)])
        self._links.send(self._partner, wholes)

    def receive(self, fields: Sequence[Field], time: float) -> None:
        """Wait for a sample of each field and store it at a time (simulated seconds).

        Raises
        ------
        CouplingError
            On all ranks, if the partner is gone.
        """
        if not fields:
            return
        intra = self._links.intra
        partitions = [self._partition(field) for field in fields]
        wholes = self._wholes(fields)
        local = wholes
        begin = perf_counter_ns()
        self._links.receive(self._partner, wholes)
        received = perf_counter_ns()
        if intra.is_parallel:
            local = [np.empty((p.size, field.components)) for p, field in zip(partitions, fields, strict=True)]
            intra.scatter(local, lambda rank: [p.part(w, rank) for p, w in zip(partitions, wholes, strict=True)])
            if not intra.is_primary:
                received = perf_counter_ns()
        self._links.wait_ns += received - begin
        for field, sample in zip(fields, local, strict=True):
            field.waveform.put(time, sample)

    def _wholes(self, fields: Sequence[Field]) -> list[NDArray[np.float64]]:
        return [np.empty((self._partition(field).whole_size, field.components)) for field in fields]

    def _partition(self, field: Field) -> Partition:
        partition = self._links.meshes[field.mesh].partition
        assert partition is not None
        return partition
