"""Every field that is exchanged, mapped or read comes from one place, and coupling schemes fit together.

What preCICE finds while it configures or initialises (``precice/config/ParticipantConfiguration.cpp``,
``cplscheme/config/CouplingSchemeConfiguration.cpp``, ``cplscheme/BaseCouplingScheme.cpp``), and combinations that this
backend refuses; all of it before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from precice_lb.embedded.assemble import (
    acceleration_settings,
    elements_of,
    mapped_data,
    schemes_of,
    watched_place,
)
from precice_lb.embedded.timeline import TOLERANCE
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.precice_xml.records import Configuration, CouplingScheme, Exchange, Mapping, Participant

__all__ = ["check_data_flow"]


class _Problem(NamedTuple):
    line: int
    what: str
    only_libprecice: bool = False


def check_data_flow(configuration: Configuration, participant: str, size: int) -> None:
    """Check all schemes and participants; some rules are for this one alone if it has more than one rank."""
    for line, what, only_libprecice in _problems(configuration, participant, size):
        where = f"{configuration.path}, line {line}: "
        if only_libprecice:
            raise UnsupportedConfigurationError(
                f"{where}{what}, which the embedded backend does not know; libprecice does it"
            )
        raise ConfigurationError(f"{where}{what}")


def _problems(configuration: Configuration, participant: str, size: int) -> Iterator[_Problem]:
    for scheme in configuration.coupling_schemes:
        yield from _in_scheme(configuration, scheme)
    for me in configuration.participants.values():
        checks = (_in_meshes, _in_composition, _in_flow, _in_watch_points)
        for check in (*checks, *([_in_parallel] if size > 1 and me.name == participant else [])):
            for line, what, only_libprecice in check(configuration, me):
                yield _Problem(line, f'participant "{me.name}" {what}', only_libprecice)


def _in_scheme(configuration: Configuration, scheme: CouplingScheme) -> Iterator[_Problem]:
    decides = scheme.judge
    sent: dict[tuple[str, str, str], Exchange] = {}
    for exchange in scheme.exchanges:
        degree = configuration.data[exchange.data].waveform_degree
        reads = any(data == exchange.data for _, data in configuration.participants[exchange.target].reads)
        if reads and degree != 1 and exchange.substeps != (degree > 1):
            yield _Problem(
                exchange.line,
                f'expected substeps="{str(degree > 1).lower()}" in <exchange> for data "{exchange.data}" with '
                f'waveform-degree="{degree}", found "{str(exchange.substeps).lower()}": correct one of them',
            )
        first = sent.setdefault((exchange.mesh, exchange.data, exchange.source), exchange)
        if (first.substeps, first.initialize) != (exchange.substeps, exchange.initialize):
            yield _Problem(
                exchange.line,
                f'exchanges data "{exchange.data}" with other substeps or initialize than line {first.line}: make '
                "them the same",
            )
    if not scheme.is_implicit:
        return
    for name in scheme.participants:
        if not any(source == name for *_, source in sent):
            yield _Problem(
                scheme.line,
                f'participant "{name}" sends nothing in an implicit coupling scheme: add an <exchange> from it, or '
                "take an explicit scheme for coupling in one direction",
            )
    exchanged = {(e.mesh, e.data) for e in scheme.exchanges if decides in (e.source, e.target)}
    acceleration = acceleration_settings(configuration, scheme)
    accelerated = () if acceleration is None else acceleration.data
    looked_at = [(each.mesh, each.data, scheme.line) for each in scheme.measures]
    for mesh, data, line in [*looked_at, *((mesh, data, line) for mesh, data, _, line in accelerated)]:
        if (mesh, data) not in exchanged:
            yield _Problem(
                line,
                f'looks at data "{data}" on mesh "{mesh}" for convergence or acceleration, which "{decides}" does not '
                "exchange: add an <exchange> or remove it",
            )
    for mesh, data, _, line in accelerated if scheme.is_serial else ():
        if (mesh, data, decides) not in sent:
            yield _Problem(
                line,
                f'accelerates data "{data}" on mesh "{mesh}", but in a serial scheme only what the second participant '
                f'"{decides}" sends can be accelerated: remove it from the acceleration',
            )


def _in_meshes(configuration: Configuration, me: Participant) -> Iterator[_Problem]:
    pairs = [{m2n.acceptor, m2n.connector} for m2n in configuration.m2ns]
    for received in me.receives:
        if {received.provider, me.name} not in pairs:
            yield _Problem(
                received.line,
                f'receives mesh "{received.name}" from "{received.provider}" without an m2n with it: add one',
            )
    for mesh, data in (*me.reads, *me.writes):
        if mesh not in me.provides:
            yield _Problem(
                me.line,
                f'has read-data or write-data "{data}" on mesh "{mesh}", which it does not provide: add '
                f'<provide-mesh name="{mesh}" /> to it',
            )


def _in_composition(configuration: Configuration, me: Participant) -> Iterator[_Problem]:
    schemes = schemes_of(configuration, me.name)
    if not schemes:
        yield _Problem(me.line, "takes part in no coupling scheme: add a <coupling-scheme:…> with it")
    implicit = [scheme for scheme in schemes if scheme.is_implicit]
    if len(implicit) > 1:
        yield _Problem(
            implicit[1].line,
            f"has a second implicit coupling scheme (see line {implicit[0].line}): take a <coupling-scheme:multi>",
        )
    for other in schemes[1:]:
        if not _fit_together(schemes[0], other, implicit[0] if implicit else None):
            yield _Problem(
                other.line,
                "has coupling schemes whose time windows or ends do not fit together (see <coupling-scheme:"
                f"{schemes[0].kind}> in line {schemes[0].line})",
                only_libprecice=True,
            )


def _in_flow(configuration: Configuration, me: Participant) -> Iterator[_Problem]:
    exchanges = [exchange for scheme in schemes_of(configuration, me.name) for exchange in scheme.exchanges]
    got = [exchange for exchange in exchanges if exchange.target == me.name]
    received = {mesh.name: mesh.provider for mesh in me.receives}
    available, sendable = set[tuple[str, str]](), set(me.writes)
    for mapping in me.mappings:
        yield from _of_mapping(configuration, me, mapping, received)
        for name in mapped_data(configuration, me, mapping):
            # None is not on the list of what is supported.
            source, target = (str(mapping.source), name), (str(mapping.target), name)
            if mapping.direction == "read" and source not in [(e.mesh, e.data) for e in got]:
                yield _Problem(
                    mapping.line,
                    f'maps data "{name}" from mesh "{mapping.source}", but nobody sends it: add <exchange '
                    f'data="{name}" mesh="{mapping.source}" to="{me.name}" … />',
                )
            if target in available:
                yield _Problem(mapping.line, f'maps data "{name}" to mesh "{mapping.target}" twice: remove one mapping')
            available.add(target)
            if mapping.direction == "write":
                sendable.add(target)
    available |= set(me.writes)
    for exchange in exchanges:
        mesh, data = exchange.mesh, exchange.data
        if me.name not in (exchange.source, exchange.target):
            continue
        if (me.name if mesh in me.provides else received.get(mesh)) not in (exchange.source, exchange.target):
            what = f'exchanges data on mesh "{mesh}", which neither of the two provides'
            yield _Problem(exchange.line, what, only_libprecice=True)
        if exchange.source == me.name and (mesh, data) not in sendable:
            yield _Problem(
                exchange.line,
                f'sends data "{data}" on mesh "{mesh}" that it neither writes nor maps: add <write-data '
                f'name="{data}" mesh="{mesh}" /> or a write mapping to "{mesh}"',
            )
        if exchange.target == me.name:
            if (mesh, data) in available:
                what = f'gets data "{data}" on mesh "{mesh}" from more than one place'
                yield _Problem(exchange.line, what, only_libprecice=True)
            available.add((mesh, data))


def _of_mapping(
    configuration: Configuration, me: Participant, mapping: Mapping, meshes: dict[str, str]
) -> Iterator[_Problem]:
    source, target = str(mapping.source), str(mapping.target)
    received, provided = (source, target) if mapping.direction == "read" else (target, source)
    if received not in meshes or provided not in me.provides:
        yield _Problem(
            mapping.line,
            f'maps in {mapping.direction} direction from "{source}" to "{target}", where "{received}" must be a '
            f'received and "{provided}" a provided mesh: correct the mapping or the meshes',
        )
    if configuration.meshes[source].dimensions != configuration.meshes[target].dimensions:
        yield _Problem(mapping.line, f'maps between "{source}" and "{target}" of different dimensions: correct it')
    if not mapped_data(configuration, me, mapping):
        yield _Problem(
            mapping.line,
            f'maps from "{source}" to "{target}", but no {mapping.direction}-data of mesh "{provided}" is data of '
            "both meshes: add it",
        )


def _in_watch_points(configuration: Configuration, me: Participant) -> Iterator[_Problem]:
    for element in elements_of(configuration, me.name, "watch-point"):
        if (mesh := element.attributes["mesh"]) not in me.provides:
            yield _Problem(element.line, f'watches mesh "{mesh}", which it does not provide: move the watch-point')
        watched_place(configuration, element)
        for data in configuration.meshes[mesh].data:
            # preCICE ends in such a case without a message.
            if (mesh, data) not in (*me.reads, *me.writes):
                what = f'watches mesh "{mesh}" with data "{data}" that it neither reads nor writes'
                yield _Problem(element.line, what, only_libprecice=True)


def _in_parallel(configuration: Configuration, me: Participant) -> Iterator[_Problem]:
    for mapping in me.mappings:
        if (mapping.direction == "write") != (mapping.constraint == "conservative"):
            yield _Problem(
                mapping.line,
                "runs on several ranks, which can only read with a consistent and write with a conservative mapping: "
                "move the mapping to the other participant in the other direction",
            )
        if mapping.kind == "rbf":
            yield _Problem(mapping.line, "runs on several ranks with <mapping:rbf …>", only_libprecice=True)
    mapped = {mesh for mapping in me.mappings for mesh in (mapping.source, mapping.target)}
    for received in me.receives:
        if received.name not in mapped:
            yield _Problem(
                received.line,
                f'receives mesh "{received.name}" without mapping from or to it: add a mapping or remove it',
            )


def _fit_together(first: CouplingScheme, other: CouplingScheme, implicit: CouplingScheme | None) -> bool:
    """Whether schemes have fixed windows and one end, explicit windows being multiples of implicit ones."""
    sizes = [scheme.time_window_size for scheme in (first, other)]
    ends = [(scheme.max_time_windows or math.inf) * scheme.time_window_size for scheme in (first, other)]
    # A window size of the first participant is NaN: of several schemes none may have it.
    together = first.max_time == other.max_time and math.isclose(*ends, rel_tol=1e-12) and not math.isnan(sum(sizes))
    # As in CompositionalCouplingScheme.cpp.
    step = math.inf if implicit is None else implicit.time_window_size
    return together and (implicit is None or all(abs(math.remainder(size, step)) <= TOLERANCE for size in sizes))
