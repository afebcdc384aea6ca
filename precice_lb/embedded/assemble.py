"""From a configuration to the objects that run one participant, with preCICE's defaults."""

from __future__ import annotations

from functools import partial

import numpy as np

from precice_lb.case.config import Configuration, ConfiguredParticipant, CouplingScheme, MeshMapping
from precice_lb.case.coupling import Roles
from precice_lb.case.elements import Element
from precice_lb.embedded.acceleration import Acceleration, Aitken, QuasiNewton
from precice_lb.embedded.files import WatchPoint
from precice_lb.embedded.mapping import MappedField, Mapping, NearestNeighbour, RadialBasis
from precice_lb.embedded.mesh import CouplingData, Field, LocalMesh
from precice_lb.embedded.schemes import Composition, Scheme, SerialScheme

_ACCELERATIONS: dict[str, type[Acceleration]] = {"constant": Acceleration, "aitken": Aitken, "IQN-ILS": QuasiNewton}


class Parts:
    """What runs one participant, from a checked configuration.

    ``meshes`` are those it uses, by name. ``reads`` and ``writes`` are the fields of its solver by (mesh, data).
    ``mappings`` are all its mappings; ``read_maps`` and ``write_maps`` are the fields they carry, in preCICE's order.
    """

    def __init__(self, configuration: Configuration, participant: str) -> None:
        me = configuration.participants[participant]
        self.meshes = {
            name: _mesh(configuration, name, provider, provider == participant)
            for name, provider in providers_of(me).items()
        }
        self.reads = {(mesh, data): self.meshes[mesh].fields[data] for mesh, data in me.reads}
        self.writes = {(mesh, data): self.meshes[mesh].fields[data] for mesh, data in me.writes}
        self.mappings: list[Mapping] = []
        self.read_maps: list[MappedField] = []
        self.write_maps: list[MappedField] = []
        for described in me.mappings:
            source, target = self.meshes[str(described.source)], self.meshes[str(described.target)]
            kind = NearestNeighbour if described.kind == "nearest-neighbor" else RadialBasis
            self.mappings.append(mapping := kind(described, source, target))
            maps = self.read_maps if described.direction == "read" else self.write_maps
            for data in mapped_data(configuration, me, described):
                maps.append(MappedField(mapping, source.fields[data], target.fields[data]))
        self.watch_points = [
            WatchPoint(
                participant,
                watched.text("name"),
                self.meshes[watched.text("mesh")],
                watched_place(configuration, watched),
            )
            for watched in watch_points_of(configuration, participant)
        ]
        schemes = Roles(configuration).schemes(participant)
        self.coupling = Composition([_scheme(configuration, one, participant, self.meshes) for one in schemes])


def _mesh(configuration: Configuration, name: str, provider: str, provided: bool) -> LocalMesh:
    described = configuration.meshes[name]
    mesh = LocalMesh(name, described.dimensions, provider, provided)
    for data in described.data:
        components = described.dimensions if configuration.data[data].is_vector else 1
        mesh.fields[data] = Field(mesh, data, components, configuration.data[data].waveform_degree)
    return mesh


def _scheme(
    configuration: Configuration, scheme: CouplingScheme, participant: str, meshes: dict[str, LocalMesh]
) -> Scheme:
    exchanges = {(one.mesh, one.data): one for one in scheme.exchanges if participant in (one.source, one.target)}
    # In the order in which preCICE numbers data.
    data = {
        (mesh.name, name): CouplingData(meshes[mesh.name].fields[name], exchange.substeps, exchange.initialize)
        for mesh in configuration.meshes.values()
        for name in mesh.data
        if (exchange := exchanges.get((mesh.name, name))) is not None
    }
    pairs = [{m2n.acceptor, m2n.connector} for m2n in configuration.m2ns]
    partners = [name for name in scheme.participants if {participant, name} in pairs]
    kind = SerialScheme if scheme.is_serial else Scheme
    number = configuration.coupling_schemes.index(scheme)
    element = configuration.root.named("coupling-scheme:")[number].first("acceleration:")
    make_acceleration = None if element is None else partial(_ACCELERATIONS[str(scheme.acceleration)], element)
    return kind(scheme, participant, partners, data, make_acceleration)


def providers_of(me: ConfiguredParticipant) -> dict[str, str]:
    """Who provides each mesh that a participant uses, by the mesh's name."""
    return dict.fromkeys(me.provides, me.name) | {mesh.name: mesh.provider for mesh in me.receives}


def watch_points_of(configuration: Configuration, participant: str) -> list[Element]:
    """List a participant's watch-points, in the order of the file."""
    return [
        child
        for owner in configuration.root.named("participant")
        if owner.attributes["name"] == participant
        for child in owner.named("watch-point")
    ]


def watched_place(configuration: Configuration, element: Element) -> list[float]:
    """Read where a watch-point is; refused unless it has as many coordinates as its mesh has dimensions."""
    text = element.text("coordinate")
    dimensions = configuration.meshes[element.known("mesh", "mesh", configuration.meshes)].dimensions
    try:
        place = [float(part) for part in text.split(";")]
    except ValueError:
        place = []
    if len(place) != dimensions or not np.isfinite(place).all():
        element.fail(f'{dimensions} numbers as in "0; 1" as "coordinate"', f'"{text}"', "correct it")
    return place


def mapped_data(configuration: Configuration, me: ConfiguredParticipant, mapping: MeshMapping) -> list[str]:
    """List the data that a mapping carries: what the solver reads or writes there and the other mesh has as well."""
    pairs, here, there = me.writes, mapping.source, mapping.target
    if mapping.direction == "read":
        pairs, here, there = me.reads, mapping.target, mapping.source
    return [data for mesh, data in pairs if mesh == here and data in configuration.meshes[str(there)].data]
