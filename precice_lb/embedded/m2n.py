"""Exchange of fields between two participants: gather, one connection between the primary ranks, scatter.

preCICE calls this gather-scatter (``m2n/GatherScatterCommunication.cpp``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.channel import Channel
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mesh import Mesh, Partition, gather
from precice_lb.embedded.profiling import Profiler

__all__ = ["Links"]

Arrays = list[NDArray[np.float64]]


class Links:
    """The links of one participant to all its partners, and what they have in common."""

    def __init__(
        self, intra: IntraComm, channels: dict[str, Channel], meshes: dict[str, Mesh], profiler: Profiler
    ) -> None:
        self.intra = intra
        self.profiler = profiler
        self.meshes = meshes
        self._channels = channels
        self._failure: str | None = None
        self._agreed = False

    def begin(self) -> None:
        """Start a phase (an ``initialize`` or ``advance``) at whose end all ranks know of any failure."""
        self._agreed = False

    def end(self) -> None:
        """Raise the primary rank's failure on all ranks, if no receiving did so in this phase."""
        if not self._agreed:
            self.intra.agree(self._failure)

    def send(self, partner: str, arrays: Sequence[NDArray[np.float64]]) -> None:
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
                [sample for _, sample in one.field.waveform.samples()] if one.substeps else [one.field.waveform.last]
                for one in data
            ]
            if self.intra.is_parallel:
                partitions = [self._partition(one) for one, own in zip(data, samples, strict=True) for _ in own]
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
            owners += [None, *[self._partition(one)] * len(message[len(owners)])]
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

    def _partition(self, one: CouplingData) -> Partition:
        partition = self.meshes[one.field.mesh].partition
        assert partition is not None
        return partition
