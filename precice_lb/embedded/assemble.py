"""From a configuration to the objects that run one participant."""

from __future__ import annotations

from dataclasses import dataclass

from precice_lb.embedded.check import is_true
from precice_lb.embedded.coupling import Composition, ParallelExplicit, Scheme, SerialExplicit
from precice_lb.embedded.dataflow import schemes_of
from precice_lb.embedded.mapping import MappedField, NearestNeighbour
from precice_lb.embedded.mesh import Field, Mesh
from precice_lb.embedded.rendezvous import Appointment
from precice_lb.precice_xml import Configuration, CouplingScheme

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
    mappings: list[NearestNeighbour]
    read_maps: list[MappedField]
    write_maps: list[MappedField]
    coupling: Composition
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
        for data in described.data:
            components = described.dimensions if configuration.data[data].is_vector else 1
            mesh.fields[data] = Field(name, data, components, configuration.data[data].waveform_degree)
        meshes[name] = mesh
    reads = {pair: meshes[pair[0]].fields[pair[1]] for pair in me.reads}
    writes = {pair: meshes[pair[0]].fields[pair[1]] for pair in me.writes}

    mappings: list[NearestNeighbour] = []
    read_maps: list[MappedField] = []
    write_maps: list[MappedField] = []
    for described_mapping in me.mappings:
        source, target = meshes[str(described_mapping.source)], meshes[str(described_mapping.target)]
        mapping = NearestNeighbour(source, target)
        mappings.append(mapping)
        is_read = described_mapping.direction == "read"
        for mesh_name, data in me.reads if is_read else me.writes:
            here, there = (target, source) if is_read else (source, target)
            if mesh_name == here.name and data in there.fields:
                mapped = MappedField(mapping, source.fields[data], target.fields[data])
                (read_maps if is_read else write_maps).append(mapped)

    coupling = Composition([_scheme(scheme, participant, meshes) for scheme in schemes_of(configuration, participant)])
    waits = is_true(configuration.root.attributes.get("wait-in-finalize"))
    appointments = _appointments(configuration, participant)
    return Parts(meshes, reads, writes, mappings, read_maps, write_maps, coupling, appointments, waits)


def _scheme(scheme: CouplingScheme, participant: str, meshes: dict[str, Mesh]) -> tuple[str, Scheme]:
    first, second = scheme.participants
    kind = SerialExplicit if scheme.is_serial else ParallelExplicit
    sends = [exchange for exchange in scheme.exchanges if exchange.source == participant]
    receives = [exchange for exchange in scheme.exchanges if exchange.target == participant]
    built = kind(
        first=participant == first,
        window_seconds=scheme.time_window_size,
        max_time=scheme.max_time,
        max_windows=scheme.max_time_windows,
        sends=[meshes[exchange.mesh].fields[exchange.data] for exchange in sends],
        receives=[meshes[exchange.mesh].fields[exchange.data] for exchange in receives],
        # One initialized field of a direction takes all of that direction with it, as in preCICE.
        sends_initial=any(exchange.initialize for exchange in sends),
        receives_initial=any(exchange.initialize for exchange in receives),
    )
    return (second if participant == first else first), built


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
