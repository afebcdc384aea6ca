"""Exchange of fields between two participants: gather, one socket between the primary ranks, scatter.

preCICE calls this gather-scatter (``m2n/GatherScatterCommunication.cpp``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.errors import CouplingError
from precice_lb.embedded.intracomm import IntraComm
from precice_lb.embedded.mesh import Field, Mesh, Partition, gather
from precice_lb.embedded.profiling import Profiler
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

    def __init__(
        self, intra: IntraComm, channels: dict[str, Channel], meshes: dict[str, Mesh], profiler: Profiler
    ) -> None:
        self.intra = intra
        self.profiler = profiler
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

    def send(self, data: Sequence[CouplingData]) -> None:
        """Send of each data all samples with their times, or only the latest one without ``substeps``."""
        with self._links.profiler.event("waitAndSendData"):
            if data:
                self._send(data)

    def _send(self, data: Sequence[CouplingData]) -> None:
        counts = [float(len(one.field.waveform)) for one in data if one.substeps]
        if counts:
            self._links.send(self._partner, [np.array(counts)])
        times, local, partitions = [], [], []
        for one in data:
            waveform = one.field.waveform
            samples = [sample for _, sample in waveform.samples()] if one.substeps else [waveform.last]
            local += samples
            partitions += [self._partition(one.field)] * len(samples)
            if one.substeps:
                times.append(np.array(waveform.times))
        if self._links.intra.is_parallel:
            local = gather(self._links.intra, partitions, local)
        self._links.send(self._partner, [*times, *local])

    def receive(self, data: Sequence[CouplingData], time: float) -> None:
        """Wait for the samples of each data and store them: at a time (simulated seconds) without ``substeps``.

        Raises
        ------
        CouplingError
            On all ranks, if the partner is gone.
        """
        with self._links.profiler.event("waitAndReceiveData"):
            if data:
                self._take(data, time)

    def _take(self, data: Sequence[CouplingData], time: float) -> None:
        with self._waiting():
            counts = np.zeros(sum(one.substeps for one in data))
            if len(counts):
                self._receive([counts])
                self._spread([counts])
            left = iter(counts.astype(int).tolist())
            numbers = [next(left) if one.substeps else 1 for one in data]
            times = [np.empty(n) for n, one in zip(numbers, data, strict=True) if one.substeps]
            partitions = [p for n, one in zip(numbers, data, strict=True) for p in [self._partition(one.field)] * n]
            widths = [w for n, one in zip(numbers, data, strict=True) for w in [one.field.components] * n]
            wholes = [np.empty((p.whole_size, width)) for p, width in zip(partitions, widths, strict=True)]
            self._receive([*times, *wholes])
        local = wholes
        if self._links.intra.is_parallel:
            local = [np.empty((p.size, width)) for p, width in zip(partitions, widths, strict=True)]
            with self._waiting(only_secondary=True):
                self._links.intra.scatter(
                    [*times, *local],
                    lambda rank: [*times, *(p.part(w, rank) for p, w in zip(partitions, wholes, strict=True))],
                )
        remaining, clocks = iter(local), iter(times)
        for one, count in zip(data, numbers, strict=True):
            if one.substeps:
                one.field.waveform.clear()
            for moment in next(clocks).tolist() if one.substeps else [time] * count:
                one.field.waveform.put(moment, next(remaining))

    def send_number(self, number: float) -> None:
        """Send one number that all ranks know."""
        self._links.send(self._partner, [np.array([number])])

    def send_convergence(self, converged: bool) -> None:
        """Say whether an iteration has converged."""
        with self._links.profiler.event("sendConvergence"):
            self.send_number(float(converged))

    def receive_convergence(self) -> bool:
        """Wait to hear whether an iteration has converged; raises as `receive_number` does."""
        with self._links.profiler.event("receiveConvergence"):
            return bool(self.receive_number())

    def receive_number(self) -> float:
        """Wait for one number, on all ranks.

        Raises
        ------
        CouplingError
            On all ranks, if the partner is gone.
        """
        number = np.zeros(1)
        with self._waiting():
            self._receive([number])
            self._spread([number])
        return float(number[0])

    def _receive(self, arrays: Sequence[NDArray[np.float64]]) -> None:
        self._links.receive(self._partner, arrays)

    def _spread(self, arrays: Sequence[NDArray[np.float64]]) -> None:
        if self._links.intra.is_parallel:
            self._links.intra.scatter(arrays, lambda rank: arrays)

    @contextlib.contextmanager
    def _waiting(self, *, only_secondary: bool = False) -> Iterator[None]:
        begin = perf_counter_ns()
        yield
        if not (only_secondary and self._links.intra.is_primary):
            self._links.wait_ns += perf_counter_ns() - begin

    def _partition(self, field: Field) -> Partition:
        partition = self._links.meshes[field.mesh].partition
        assert partition is not None
        return partition
