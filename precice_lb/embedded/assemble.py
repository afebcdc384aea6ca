"""From a configuration to the objects that run one participant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from precice_lb.embedded.acceleration import Acceleration, Aitken, ConstantRelaxation
from precice_lb.embedded.coupling import Scheme
from precice_lb.embedded.files import WatchPoint
from precice_lb.embedded.mapping import MappedField, Mapping, NearestNeighbour, RadialBasis
from precice_lb.embedded.mesh import CouplingData, Field, Mesh
from precice_lb.embedded.quasi_newton import QuasiNewton
from precice_lb.embedded.rendezvous import Appointment
from precice_lb.embedded.schemes import Composition, ParallelScheme, SerialScheme
from precice_lb.embedded.settings import (
    acceleration_settings,
    kernel_of,
    mapped_data,
    measure_settings,
    schemes_of,
    watch_elements,
    watched_place,
)
from precice_lb.precice_xml.records import Configuration, CouplingScheme
from precice_lb.precice_xml.records import Mapping as MeshMapping

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
            mesh.fields[data] = Field(mesh, data, components, configuration.data[data].waveform_degree)
        meshes[name] = mesh

    mappings: list[Mapping] = []
    maps: dict[str, list[MappedField]] = {"read": [], "write": []}
    for described_mapping in me.mappings:
        source, target = meshes[str(described_mapping.source)], meshes[str(described_mapping.target)]
        mapping = _mapping(configuration, described_mapping, source, target)
        mappings.append(mapping)
        for data in mapped_data(configuration, me, described_mapping):
            maps[described_mapping.direction].append(MappedField(mapping, source.fields[data], target.fields[data]))

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
    kernel, radius = kernel_of(configuration, described)
    one_cluster = described.kind == "rbf"
    return RadialBasis(source, target, kernel, radius, conservative=conservative, one_cluster=one_cluster)


_ACCELERATIONS: dict[str, type[Acceleration]] = {
    "constant": ConstantRelaxation,
    "aitken": Aitken,
    "IQN-ILS": QuasiNewton,
}


def _scheme(configuration: Configuration, scheme: CouplingScheme, participant: str, meshes: dict[str, Mesh]) -> Scheme:
    order = [(mesh.name, data) for mesh in configuration.meshes.values() for data in mesh.data]
    data: dict[tuple[str, str], CouplingData] = {}
    for one in scheme.exchanges:
        pair = (one.mesh, one.data)
        if participant in (one.source, one.target):
            field = meshes[one.mesh].fields[one.data]
            data.setdefault(pair, CouplingData(field, order.index(pair), one.substeps, one.initialize))
    pairs = [{m2n.acceptor, m2n.connector} for m2n in configuration.m2ns]
    partners = [name for name in scheme.participants if {participant, name} in pairs]
    kind = SerialScheme if scheme.is_serial else ParallelScheme
    if participant != (scheme.controller or scheme.participants[1]):
        return kind(scheme, participant, partners, data, (), None)
    settings = acceleration_settings(configuration, scheme)
    make_acceleration = None if settings is None else partial(_ACCELERATIONS[settings.kind], settings)
    return kind(scheme, participant, partners, data, measure_settings(configuration, scheme), make_acceleration)


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
