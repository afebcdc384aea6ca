"""Every field that is exchanged, mapped or read must come from somewhere, and from one place only.

What preCICE finds while it configures or initialises (``precice/config/ParticipantConfiguration.cpp``,
``cplscheme/config/CouplingSchemeConfiguration.cpp``, ``cplscheme/BaseCouplingScheme.cpp``), and combinations that this
backend refuses; all of it before anything runs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NoReturn

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.embedded.settings import acceleration_settings, measure_settings
from precice_lb.embedded.watch import watch_elements, watched_place
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.precice_xml import Configuration, CouplingScheme, Exchange, Participant

__all__ = ["check_data_flow", "schemes_of"]


def schemes_of(configuration: Configuration, participant: str) -> list[CouplingScheme]:
    """List the coupling schemes that a participant takes part in, in the order of the file."""
    return [scheme for scheme in configuration.coupling_schemes if participant in scheme.participants]


def check_data_flow(configuration: Configuration, participant: str, size: int) -> None:
    """Check all schemes and participants; some rules are for this one alone if it has more than one rank."""
    for scheme in configuration.coupling_schemes:
        _Scheme(configuration, scheme).check()
    for one in configuration.participants.values():
        _Flow(configuration, one).check()
    if size > 1:
        _Flow(configuration, configuration.participants[participant]).check_parallel()


class _Scheme:
    """What preCICE demands of one coupling scheme."""

    def __init__(self, configuration: Configuration, scheme: CouplingScheme) -> None:
        self._configuration = configuration
        self._scheme = scheme
        self._decides = scheme.controller or scheme.participants[1]

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise ConfigurationError(f"{self._configuration.path}, line {line}: {what}")

    def check(self) -> None:
        scheme = self._scheme
        seen: dict[tuple[str, str, str], Exchange] = {}
        for exchange in scheme.exchanges:
            self._check_waveform(exchange)
            first = seen.setdefault((exchange.mesh, exchange.data, exchange.source), exchange)
            if (first.substeps, first.initialize) != (exchange.substeps, exchange.initialize):
                self._refuse(
                    exchange.line,
                    f'exchanges data "{exchange.data}" with other substeps or initialize than line {first.line}: make '
                    "them the same",
                )
        if not scheme.is_implicit:
            return
        for name in scheme.participants:
            if not any(exchange.source == name for exchange in scheme.exchanges):
                self._refuse(
                    scheme.line,
                    f'participant "{name}" sends nothing in an implicit coupling scheme: add an <exchange> from it, or '
                    "take an explicit scheme for coupling in one direction",
                )
        for measure in measure_settings(self._configuration, scheme):
            self._check_exchanged(measure.mesh, measure.data)
        if (acceleration := acceleration_settings(self._configuration, scheme)) is not None:
            for mesh, data, _ in acceleration.data:
                self._check_exchanged(mesh, data)
                if scheme.is_serial and (mesh, data, self._decides) not in seen:
                    self._refuse(
                        acceleration.line,
                        f'accelerates data "{data}" on mesh "{mesh}", but in a serial scheme only what the second '
                        f'participant "{self._decides}" sends can be accelerated: remove it from the acceleration',
                    )

    def _check_exchanged(self, mesh: str, data: str) -> None:
        if not any(
            (e.mesh, e.data) == (mesh, data) and self._decides in (e.source, e.target) for e in self._scheme.exchanges
        ):
            self._refuse(
                self._scheme.line,
                f'looks at data "{data}" on mesh "{mesh}" for convergence or acceleration, which "{self._decides}" '
                "does not exchange: add an <exchange> or remove it",
            )

    def _check_waveform(self, exchange: Exchange) -> None:
        degree = self._configuration.data[exchange.data].waveform_degree
        reads = any(data == exchange.data for _, data in self._configuration.participants[exchange.target].reads)
        if reads and degree != 1 and exchange.substeps != (degree > 1):
            self._refuse(
                exchange.line,
                f'expected substeps="{str(degree > 1).lower()}" in <exchange> for data "{exchange.data}" with '
                f'waveform-degree="{degree}", found "{str(exchange.substeps).lower()}": correct one of them',
            )


class _Flow:
    """The data flow at one participant."""

    def __init__(self, configuration: Configuration, participant: Participant) -> None:
        self._configuration = configuration
        self._me = participant
        self._received = {mesh.name: mesh.provider for mesh in participant.receives}
        self._schemes = schemes_of(configuration, participant.name)
        exchanges = [exchange for scheme in self._schemes for exchange in scheme.exchanges]
        self._sent = [e for e in exchanges if e.source == participant.name]
        self._got = [e for e in exchanges if e.target == participant.name]

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise ConfigurationError(f'{self._configuration.path}, line {line}: participant "{self._me.name}" {what}')

    def _unsupported(self, line: int, what: str) -> NoReturn:
        raise UnsupportedConfigurationError(
            f'{self._configuration.path}, line {line}: participant "{self._me.name}" {what}, which the embedded '
            "backend does not know; libprecice does it"
        )

    def check(self) -> None:
        self._check_schemes()
        self._check_meshes()
        self._check_mappings()
        for mesh, data in (*self._me.reads, *self._me.writes):
            if mesh not in self._me.provides:
                self._refuse(
                    self._me.line,
                    f'has read-data or write-data "{data}" on mesh "{mesh}", which it does not provide: add '
                    f'<provide-mesh name="{mesh}" /> to it',
                )
        for exchange in (*self._sent, *self._got):
            self._check_exchange(exchange)
        for element in watch_elements(self._configuration, self._me.name):
            if (mesh := element.attributes["mesh"]) not in self._me.provides:
                self._refuse(element.line, f'watches mesh "{mesh}", which it does not provide: move the watch-point')
            watched_place(self._configuration, element)
            for data in self._configuration.meshes[mesh].data:
                # preCICE ends in such a case without a message.
                if (mesh, data) not in (*self._me.reads, *self._me.writes):
                    self._unsupported(
                        element.line, f'watches mesh "{mesh}" with data "{data}" that it neither reads nor writes'
                    )

    def check_parallel(self) -> None:
        mapped = {mesh for mapping in self._me.mappings for mesh in (mapping.source, mapping.target)}
        for mapping in self._me.mappings:
            if (mapping.direction == "write") != (mapping.constraint == "conservative"):
                self._refuse(
                    mapping.line,
                    "runs on several ranks, which can only read with a consistent and write with a conservative "
                    "mapping: move the mapping to the other participant in the other direction",
                )
            if mapping.kind == "rbf":
                self._unsupported(mapping.line, "runs on several ranks with <mapping:rbf …>")
        for received in self._me.receives:
            if received.name not in mapped:
                self._refuse(
                    received.line,
                    f'receives mesh "{received.name}" without mapping from or to it: add a mapping or remove it',
                )

    def _check_schemes(self) -> None:
        if not self._schemes:
            self._refuse(self._me.line, "takes part in no coupling scheme: add a <coupling-scheme:…> with it")
        implicit = [scheme for scheme in self._schemes if scheme.is_implicit]
        if len(implicit) > 1:
            self._refuse(
                implicit[1].line,
                f"has a second implicit coupling scheme (see line {implicit[0].line}): take a <coupling-scheme:multi>",
            )
        first = self._schemes[0]
        for other in self._schemes[1:]:
            if not _fit_together(first, other, implicit[0] if implicit else None):
                self._unsupported(
                    other.line,
                    f"has coupling schemes whose time windows or ends do not fit together (see <coupling-scheme:"
                    f"{first.kind}> in line {first.line})",
                )

    def _check_meshes(self) -> None:
        pairs = [{m2n.acceptor, m2n.connector} for m2n in self._configuration.m2ns]
        for received in self._me.receives:
            if received.name in self._me.provides:
                self._refuse(received.line, f'both provides and receives mesh "{received.name}": remove one')
            if {received.provider, self._me.name} not in pairs:
                self._refuse(
                    received.line,
                    f'receives mesh "{received.name}" from "{received.provider}" without an m2n with it: add one',
                )

    def _check_mappings(self) -> None:
        reached: Counter[tuple[str, str]] = Counter()
        for mapping in self._me.mappings:
            # None is not on the list of what is supported.
            source, target = str(mapping.source), str(mapping.target)
            reads = mapping.direction == "read"
            received, provided = (source, target) if reads else (target, source)
            if received not in self._received or provided not in self._me.provides:
                self._refuse(
                    mapping.line,
                    f'maps in {mapping.direction} direction from "{source}" to "{target}", where "{received}" must be '
                    f'a received and "{provided}" a provided mesh: correct the mapping or the meshes',
                )
            if self._configuration.meshes[source].dimensions != self._configuration.meshes[target].dimensions:
                self._refuse(
                    mapping.line, f'maps between "{source}" and "{target}" of different dimensions: correct it'
                )
            data = self._mapped_data(mapping.direction, source, target)
            if not data:
                self._refuse(
                    mapping.line,
                    f'maps from "{source}" to "{target}", but no {mapping.direction}-data of mesh "{provided}" is data '
                    "of both meshes: add it",
                )
            for name in data:
                if reads and (source, name) not in [(e.mesh, e.data) for e in self._got]:
                    self._refuse(
                        mapping.line,
                        f'maps data "{name}" from mesh "{source}", but nobody sends it: add <exchange data="{name}" '
                        f'mesh="{source}" to="{self._me.name}" … />',
                    )
                reached[target, name] += 1
                if reached[target, name] > 1:
                    self._refuse(mapping.line, f'maps data "{name}" to mesh "{target}" twice: remove one mapping')

    def _mapped_data(self, direction: str, source: str, target: str) -> list[str]:
        pairs = self._me.reads if direction == "read" else self._me.writes
        here, there = (target, source) if direction == "read" else (source, target)
        return [data for mesh, data in pairs if mesh == here and data in self._configuration.meshes[there].data]

    def _check_exchange(self, exchange: Exchange) -> None:
        mesh, data = exchange.mesh, exchange.data
        provider = self._me.name if mesh in self._me.provides else self._received.get(mesh)
        if provider not in (exchange.source, exchange.target):
            self._unsupported(exchange.line, f'exchanges data on mesh "{mesh}", which neither of the two provides')
        if exchange.source == self._me.name:
            mapped = any(
                m.direction == "write" and m.target == mesh and data in self._mapped_data("write", str(m.source), mesh)
                for m in self._me.mappings
            )
            if not mapped and (mesh, data) not in self._me.writes:
                self._refuse(
                    exchange.line,
                    f'sends data "{data}" on mesh "{mesh}" that it neither writes nor maps: add <write-data '
                    f'name="{data}" mesh="{mesh}" /> or a write mapping to "{mesh}"',
                )
        elif (mesh, data) in self._me.writes or [(e.mesh, e.data) for e in self._got].count((mesh, data)) > 1:
            self._unsupported(exchange.line, f'gets data "{data}" on mesh "{mesh}" from more than one place')


def _fit_together(first: CouplingScheme, other: CouplingScheme, implicit: CouplingScheme | None) -> bool:
    """Whether schemes have the same windows and end, or windows that preCICE calls well-defined and an end in time."""
    sizes = (first.time_window_size, other.time_window_size)
    windows = (first.max_time_windows, other.max_time_windows)
    if first.max_time != other.max_time or (windows[0] is None) != (windows[1] is None):
        return False
    if sizes[0] == sizes[1]:
        return windows[0] == windows[1]
    if not all(size > 0 for size in sizes):
        return False
    if windows[0] is not None and windows[1] is not None:
        ends = windows[0] * sizes[0], windows[1] * sizes[1]
        if not math.isclose(*ends, rel_tol=1e-12):
            return False
    # CompositionalCouplingScheme.cpp: explicit time windows are multiples of implicit ones.
    step = implicit.time_window_size if implicit is not None else 0.0
    return implicit is None or all(abs(math.remainder(size, step)) <= TOLERANCE for size in sizes)
