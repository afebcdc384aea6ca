"""From a configuration to the objects that run one participant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from precice_lb.embedded.acceleration import Acceleration, Aitken, ConstantRelaxation
from precice_lb.embedded.clock import Clock
from precice_lb.embedded.composition import Composition
from precice_lb.embedded.convergence import Convergence, Measure
from precice_lb.embedded.coupling import Iterations, Scheme
from precice_lb.embedded.coupling_data import CouplingData
from precice_lb.embedded.dataflow import schemes_of
from precice_lb.embedded.mapping import MappedField, Mapping, NearestNeighbour
from precice_lb.embedded.mesh import Field, Mesh
from precice_lb.embedded.quasi_newton import QuasiNewton
from precice_lb.embedded.rbf import RadialBasis
from precice_lb.embedded.rendezvous import Appointment
from precice_lb.embedded.schemes import ParallelScheme, SerialScheme
from precice_lb.embedded.settings import acceleration_settings, kernel_settings, measure_settings
from precice_lb.embedded.watch import WatchPoint, watch_elements, watched_place
from precice_lb.precice_xml import Configuration, CouplingScheme
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


def assemble(configuration: Configuration, participant: str) -> Parts:
    """Build meshes, fields, mappings and coupling of a participant from a checked configuration."""
    me = configuration.participants[participant]
    providers = dict.fromkeys(me.provides, participant) | {mesh.name: mesh.provider for mesh in me.receives}
    meshes: dict[str, Mesh] = {}
    for name, provider in providers.items():
        described = configuration.meshes[name]
        mesh = Mesh(name, described.dimensions, provider, provider == participant)
        for data in described.data:
            components = described.dimensions if configuration.data[data].is_vector else 1
            mesh.fields[data] = Field(name, data, components, configuration.data[data].waveform_degree)
        meshes[name] = mesh

    mappings: list[Mapping] = []
    maps: dict[str, list[MappedField]] = {"read": [], "write": []}
    for described_mapping in me.mappings:
        source, target = meshes[str(described_mapping.source)], meshes[str(described_mapping.target)]
        mapping = _mapping(configuration, described_mapping, source, target)
        mappings.append(mapping)
        is_read = described_mapping.direction == "read"
        here, there = (target, source) if is_read else (source, target)
        for mesh_name, data in me.reads if is_read else me.writes:
            if mesh_name == here.name and data in there.fields:
                mapped = MappedField(mapping, source.fields[data], target.fields[data])
                maps[described_mapping.direction].append(mapped)

    watch_points = [
        WatchPoint(participant, watched["name"], meshes[watched["mesh"]], watched_place(configuration, element))
        for element in watch_elements(configuration, participant)
        for watched in [element.attributes]
    ]
    schemes = [_scheme(configuration, scheme, participant, meshes) for scheme in schemes_of(configuration, participant)]
    return Parts(
        meshes=meshes,
        reads={pair: meshes[pair[0]].fields[pair[1]] for pair in me.reads},
        writes={pair: meshes[pair[0]].fields[pair[1]] for pair in me.writes},
        mappings=mappings,
        read_maps=maps["read"],
        write_maps=maps["write"],
        coupling=Composition(schemes),
        watch_points=watch_points,
        appointments=_appointments(configuration, participant),
    )


def _mapping(configuration: Configuration, described: MeshMapping, source: Mesh, target: Mesh) -> Mapping:
    conservative = described.constraint == "conservative"
    if described.kind == "nearest-neighbor":
        return NearestNeighbour(source, target, conservative=conservative)
    settings = kernel_settings(configuration, described)
    return RadialBasis(source, target, conservative=conservative, settings=settings)


_ACCELERATIONS: dict[str, type[Acceleration]] = {
    "constant": ConstantRelaxation,
    "aitken": Aitken,
    "IQN-ILS": QuasiNewton,
}


def _scheme(configuration: Configuration, scheme: CouplingScheme, participant: str, meshes: dict[str, Mesh]) -> Scheme:
    order = [(mesh.name, data) for mesh in configuration.meshes.values() for data in mesh.data]
    partners = [name for name in scheme.participants if name != participant]
    data: dict[tuple[str, str], CouplingData] = {}
    sends: dict[str, list[CouplingData]] = {partner: [] for partner in partners}
    receives: dict[str, list[CouplingData]] = {partner: [] for partner in partners}
    for exchange in scheme.exchanges:
        pair = (exchange.mesh, exchange.data)
        if participant in (exchange.source, exchange.target) and pair not in data:
            field = meshes[exchange.mesh].fields[exchange.data]
            data[pair] = CouplingData(field, order.index(pair), exchange.substeps, exchange.initialize)
        if participant == exchange.source:
            sends[exchange.target].append(data[pair])
        elif participant == exchange.target:
            receives[exchange.source].append(data[pair])
    for exchanged in (*sends.values(), *receives.values()):
        exchanged.sort(key=lambda one: one.number)
    size = None if scheme.window_size_from_first else scheme.time_window_size
    controller = scheme.controller or scheme.participants[1]
    pairs = [{m2n.acceptor, m2n.connector} for m2n in configuration.m2ns]
    others: dict[str, Any] = {
        "participant": participant,
        "controller": controller,
        "partners": [name for name in partners if {participant, name} in pairs],
        "clock": Clock(size, scheme.max_time),
        "max_windows": scheme.max_time_windows,
        "sends": sends,
        "receives": receives,
        "iterations": _iterations(configuration, scheme, participant == controller, data),
    }
    if scheme.is_serial:
        return SerialScheme(window_from_first=scheme.window_size_from_first, **others)
    return ParallelScheme(**others)


def _iterations(
    configuration: Configuration, scheme: CouplingScheme, controls: bool, data: dict[tuple[str, str], CouplingData]
) -> Iterations | None:
    if not scheme.is_implicit:
        return None
    if not controls:
        return Iterations(Convergence([], scheme.max_iterations), None)
    measures = [
        Measure(settings, data[settings.mesh, settings.data]) for settings in measure_settings(configuration, scheme)
    ]
    settings = acceleration_settings(configuration, scheme)
    make = None if settings is None else partial(_ACCELERATIONS[settings.kind], settings)
    return Iterations(Convergence(measures, scheme.max_iterations), make)


def _appointments(configuration: Configuration, participant: str) -> list[Appointment]:
    elements = [element.attributes for element in configuration.root.children if element.tag.startswith("m2n:")]
    return [
        Appointment(
            partner=m2n.connector if participant == m2n.acceptor else m2n.acceptor,
            accepts=participant == m2n.acceptor,
            directory=m2n.exchange_directory,
            network=attributes.get("network", "lo"),
            port=int(attributes.get("port", "0")),
        )
        for m2n, attributes in zip(configuration.m2ns, elements, strict=True)
        if participant in (m2n.acceptor, m2n.connector)
    ]
