"""From a configuration to the objects that run one participant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from precice_lb.embedded.acceleration import Acceleration, Aitken, ConstantRelaxation
from precice_lb.embedded.check import is_true
from precice_lb.embedded.clock import Clock
from precice_lb.embedded.composition import Composition
from precice_lb.embedded.convergence import Convergence, Measure, Total
from precice_lb.embedded.coupling import Iterations, Scheme
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.dataflow import schemes_of
from precice_lb.embedded.mapping import MappedField, Mapping, NearestNeighbour, NearestProjection
from precice_lb.embedded.mesh import Field, Mesh
from precice_lb.embedded.quasi_newton import QuasiNewton
from precice_lb.embedded.rbf import RadialBasis
from precice_lb.embedded.rendezvous import Appointment
from precice_lb.embedded.schemes import MultiScheme, ParallelScheme, SerialScheme
from precice_lb.embedded.settings import (
    acceleration_settings,
    kernel_settings,
    mapping_element,
    measure_settings,
    min_iterations,
)
from precice_lb.embedded.watch import WatchPoint, watch_elements, watched_place
from precice_lb.precice_xml import Configuration, CouplingScheme, Participant
from precice_lb.precice_xml import Mapping as MeshMapping

__all__ = ["Parts", "assemble"]


@dataclass(frozen=True)
class Parts:
    """What runs one participant.

    ``meshes`` are those it uses, by name. ``reads`` and ``writes`` are the fields of its solver by (mesh, data).
    ``mappings`` are all its mappings; ``read_maps`` and ``write_maps`` are the fields they carry, in preCICE's order.
    """

    meshes: dict[str, Mesh]
    reads: dict[tuple[str, str], Field]
    writes: dict[tuple[str, str], Field]
    mappings: list[Mapping]
    read_maps: list[MappedField]
    write_maps: list[MappedField]
    coupling: Composition
    watch_points: list[WatchPoint]
    appointments: list[Appointment]
    waits_in_finalize: bool


def assemble(configuration: Configuration, participant: str) -> Parts:
    """Build meshes, fields, mappings and coupling of a participant from a checked configuration."""
    me = configuration.participants[participant]
    providers = dict.fromkeys(me.provides, participant) | {mesh.name: mesh.provider for mesh in me.receives}
    meshes: dict[str, Mesh] = {}
    for name, provider in providers.items():
        described = configuration.meshes[name]
        mesh = Mesh(name, described.dimensions, provider, provider == participant)
        mesh.needs_connectivity = _needs_connectivity(configuration, name, None if provider == participant else me)
        for data in described.data:
            components = described.dimensions if configuration.data[data].is_vector else 1
            mesh.fields[data] = Field(name, data, components, configuration.data[data].waveform_degree)
        meshes[name] = mesh
    reads = {pair: meshes[pair[0]].fields[pair[1]] for pair in me.reads}
    writes = {pair: meshes[pair[0]].fields[pair[1]] for pair in me.writes}

    mappings: list[Mapping] = []
    read_maps: list[MappedField] = []
    write_maps: list[MappedField] = []
    for described_mapping in me.mappings:
        source, target = meshes[str(described_mapping.source)], meshes[str(described_mapping.target)]
        mapping = _mapping(configuration, described_mapping, source, target)
        mappings.append(mapping)
        is_read = described_mapping.direction == "read"
        for mesh_name, data in me.reads if is_read else me.writes:
            here, there = (target, source) if is_read else (source, target)
            if mesh_name == here.name and data in there.fields:
                mapped = MappedField(mapping, source.fields[data], target.fields[data])
                (read_maps if is_read else write_maps).append(mapped)

    coupling = Composition(
        [_scheme(configuration, scheme, participant, meshes) for scheme in schemes_of(configuration, participant)]
    )
    waits = is_true(configuration.root.attributes.get("wait-in-finalize"))
    appointments = _appointments(configuration, participant)
    watch_points = [
        WatchPoint(
            participant,
            element.attributes["name"],
            meshes[element.attributes["mesh"]],
            watched_place(configuration, element),
        )
        for element in watch_elements(configuration, participant)
    ]
    return Parts(meshes, reads, writes, mappings, read_maps, write_maps, coupling, watch_points, appointments, waits)


def _needs_connectivity(configuration: Configuration, mesh: str, only: Participant | None) -> bool:
    """Whether one participant, or any, searches a mesh for projections (``Configuration::configurePartitionsFor``)."""
    return any(
        mapping.kind == "nearest-projection"
        and mesh == (mapping.target if mapping.constraint == "conservative" else mapping.source)
        for participant in ([only] if only else configuration.participants.values())
        for mapping in participant.mappings
    )


def _mapping(configuration: Configuration, described: MeshMapping, source: Mesh, target: Mesh) -> Mapping:
    conservative = described.constraint == "conservative"
    if described.kind == "nearest-neighbor":
        return NearestNeighbour(source, target, conservative=conservative)
    if described.kind == "nearest-projection":
        return NearestProjection(source, target, conservative=conservative)
    settings = kernel_settings(configuration, mapping_element(configuration, described))
    return RadialBasis(source, target, conservative=conservative, settings=settings)


_ACCELERATIONS: dict[str, type[Acceleration]] = {
    "constant": ConstantRelaxation,
    "aitken": Aitken,
    "IQN-ILS": QuasiNewton,
}


def _scheme(configuration: Configuration, scheme: CouplingScheme, participant: str, meshes: dict[str, Mesh]) -> Scheme:
    numbers = {
        (mesh.name, data): (position, place)
        for position, mesh in enumerate(configuration.meshes.values())
        for place, data in enumerate(mesh.data)
    }
    order = {pair: number for number, pair in enumerate(sorted(numbers, key=lambda pair: numbers[pair]))}
    partners = [name for name in scheme.participants if name != participant]
    data: dict[tuple[str, str], CouplingData] = {}
    sends: dict[str, list[CouplingData]] = {partner: [] for partner in partners}
    receives: dict[str, list[CouplingData]] = {partner: [] for partner in partners}
    for exchange in scheme.exchanges:
        if participant not in (exchange.source, exchange.target):
            continue
        pair = (exchange.mesh, exchange.data)
        is_sent = exchange.source == participant
        if pair not in data:
            field = meshes[exchange.mesh].fields[exchange.data]
            data[pair] = CouplingData(
                field, order[pair], is_sent=is_sent, substeps=exchange.substeps, initialize=exchange.initialize
            )
        (sends[exchange.target] if is_sent else receives[exchange.source]).append(data[pair])
    for exchanged in (*sends.values(), *receives.values()):
        exchanged.sort(key=lambda one: one.number)
    size = None if scheme.window_size_from_first else scheme.time_window_size
    others: dict[str, Any] = {
        "participant": participant,
        "first": participant != scheme.controller if scheme.kind == "multi" else participant == scheme.participants[0],
        "clock": Clock(size, scheme.max_time),
        "max_windows": scheme.max_time_windows,
        "sends": sends,
        "receives": receives,
        "iterations": _iterations(configuration, scheme, participant, data) if scheme.is_implicit else None,
    }
    if scheme.kind == "multi":
        connected = [name for name in partners if _are_connected(configuration, participant, name)]
        return MultiScheme(controller=str(scheme.controller), partners=connected, **others)
    if scheme.is_serial:
        return SerialScheme(window_from_first=scheme.window_size_from_first, **others)
    return ParallelScheme(**others)


def _iterations(
    configuration: Configuration,
    scheme: CouplingScheme,
    participant: str,
    data: dict[tuple[str, str], CouplingData],
) -> Iterations:
    decides = participant == (scheme.controller if scheme.kind == "multi" else scheme.participants[1])
    measures = [
        Measure(settings, data[settings.mesh, settings.data])
        for settings in (measure_settings(configuration, scheme) if decides else ())
    ]
    convergence = Convergence(measures, min_iterations(configuration, scheme), scheme.max_iterations)
    settings = acceleration_settings(configuration, scheme)
    if settings is None or not decides:
        return Iterations(convergence, None)
    kind = _ACCELERATIONS[settings.kind]

    def make(accelerated: Sequence[CouplingData], total: Total) -> Acceleration:
        return kind(settings, accelerated, total)

    return Iterations(convergence, make)


def _are_connected(configuration: Configuration, one: str, other: str) -> bool:
    return any({one, other} == {m2n.acceptor, m2n.connector} for m2n in configuration.m2ns)


def _appointments(configuration: Configuration, participant: str) -> list[Appointment]:
    elements = {element.line: element for element in configuration.root.children if element.tag.startswith("m2n:")}
    result = []
    for m2n in configuration.m2ns:
        if participant not in (m2n.acceptor, m2n.connector):
            continue
        attributes = elements[m2n.line].attributes
        result.append(
            Appointment(
                partner=m2n.connector if participant == m2n.acceptor else m2n.acceptor,
                accepts=participant == m2n.acceptor,
                directory=m2n.exchange_directory,
                network=attributes.get("network", "lo"),
                port=int(attributes.get("port", "0")),
            )
        )
    return result
