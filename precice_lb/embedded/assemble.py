"""From a configuration to the objects that run one participant, with preCICE's defaults, and what of it is supported.

The one list of tags and attributes that are stands below; everything else is refused with its line, and so are schemes,
exchanges and mappings that cannot be combined. Whether the data flow makes sense is not checked: preCICE's
``precice-config-validate`` does that. The whole file is checked at every participant, so that all of them refuse it
together. What changes no result of the simulation (``log``, ``intra-comm``) is on the list and without effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from precice_lb.case.config import Configuration, ConfiguredParticipant, CouplingScheme, MeshMapping
from precice_lb.case.coupling import Roles
from precice_lb.case.elements import Element, Tag, schema
from precice_lb.embedded.acceleration import Acceleration, Aitken, QuasiNewton
from precice_lb.embedded.files import WatchPoint
from precice_lb.embedded.mapping import KERNELS, MappedField, Mapping, NearestNeighbour, RadialBasis
from precice_lb.embedded.mesh import CouplingData, Field, LocalMesh
from precice_lb.embedded.schemes import Composition, Scheme, SerialScheme
from precice_lb.embedded.timeline import TOLERANCE
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError

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


# What an attribute has to be, in words, and whether it is.
_Rule = tuple[str, Callable[[Element, str], bool]]


def _one_of(*values: str) -> _Rule:
    return " or ".join(f'"{value}"' for value in values), lambda element, name: element.text(name) in values


def _whole(least: int, most: float = math.inf) -> _Rule:
    what = f"a whole number of at least {least}" + (f" and at most {most}" if most < math.inf else "")
    return what, lambda element, name: least <= element.integer(name) <= most


def _real(above: float, most: float = math.inf) -> _Rule:
    what = "a finite number" if above == -math.inf else f"a number greater than {above:g}"
    what += f" and at most {most:g}" if most < math.inf else ""
    return what, lambda element, name: above < element.number(name) <= most and element.number(name) < math.inf


_TAGS = (
    "precice-configuration log sink profiling data:scalar data:vector mesh use-data participant m2n:sockets "
    "intra-comm:sockets intra-comm:mpi provide-mesh receive-mesh read-data write-data watch-point exchange "
    "mapping:nearest-neighbor mapping:rbf mapping:rbf-global-direct coupling-scheme:serial-explicit "
    "coupling-scheme:parallel-explicit coupling-scheme:serial-implicit coupling-scheme:parallel-implicit "
    "coupling-scheme:multi participants max-time max-time-windows time-window-size max-iterations "
    "absolute-convergence-measure relative-convergence-measure acceleration:constant acceleration:aitken "
    "acceleration:IQN-ILS relaxation initial-relaxation data max-used-iterations time-windows-reused filter "
    "preconditioner"
)
_KNOWN_TAGS = {*_TAGS.split(), *(f"basis-function:{name}" for name in KERNELS)}
#: Tags of the list that stand elsewhere as well.
_NOT_INSIDE = {("acceleration:aitken", "preconditioner")}
_OFF: _Rule = '"false"', lambda element, name: not element.boolean(name)
_MESH: _Rule = "a mesh (without it, mapping is just-in-time)", lambda element, name: bool(element.text(name, ""))
_ANY: _Rule = "text", lambda element, name: True
_SHARE = _real(1e-14, 1.0)
#: Attributes that may be whatever preCICE takes, where no rule stands for them.
_FREE = (
    "acceptor connector control coordinate data dimensions direction directory enabled enforce-gather-scatter "
    "exchange-directory experimental filter first format from geometric-filter initialize limit mesh method mode name "
    "output port safety-factor second substeps synchronize to type value"
)
#: By attribute, or by tag (without what stands behind its colon) and attribute.
_RULES = {
    **dict.fromkeys(_FREE.split(), _ANY),
    "allow-remeshing": _OFF,
    "wait-in-finalize": _OFF,
    "flush-every": _whole(0),
    "waveform-degree": _whole(0, 3),
    "m2n/network": _one_of("lo", "lo0"),
    "m2n/port": _whole(0, 65535),
    "intra-comm/network": _ANY,
    "use-two-level-initialization": _OFF,
    "api-access": _OFF,
    "direct-access": _OFF,
    "mapping/from": _MESH,
    "mapping/to": _MESH,
    "constraint": _one_of("consistent", "conservative"),
    "support-radius": _real(1e-14),
    "max-time/value": _real(-math.inf),
    "time-window-size/value": _real(-math.inf),
    "time-window-size/method": _one_of("fixed"),
    "suffices": _OFF,
    "strict": _OFF,
    "scaling": _real(0.0),
    "relaxation/value": _SHARE,
    "initial-relaxation/value": _SHARE,
    "enforce": _OFF,
    "max-used-iterations/value": _whole(1),
    "time-windows-reused/value": _whole(1),
    "filter/type": _one_of("QR1", "QR2", "QR3"),
    "filter/limit": _real(0.0),
    "preconditioner/type": _one_of("constant", "residual-sum"),
}
#: What preCICE lets be left out and this backend does not.
_REQUIRED = ("mapping/from", "mapping/to", "filter/type")


def check_supported(configuration: Configuration, participant: str, size: int) -> None:
    """Refuse what this backend cannot do, for a participant of `size` ranks."""
    if participant not in configuration.participants:
        known = ", ".join(f'"{name}"' for name in configuration.participants)
        raise ConfigurationError(
            f'expected one of the participants {known} of {configuration.path}, found "{participant}": check the name '
            "that the solver passes to Participant"
        )
    if not Roles(configuration).schemes(participant):
        raise ConfigurationError(
            f'{configuration.path}: expected a <coupling-scheme:…> of participant "{participant}", found none; add one'
        )
    _check(configuration.root, schema())
    for element, scheme in zip(
        configuration.root.named("coupling-scheme:"), configuration.coupling_schemes, strict=True
    ):
        _check_iterations(element, scheme)
    for me in configuration.participants.values():
        for element in watch_points_of(configuration, me.name):
            watched_place(configuration, element)
        parallel = _in_parallel(me) if size > 1 and me.name == participant else ()
        for line, what in (*_in_schemes(configuration, me), *_in_exchanges(configuration, me), *parallel):
            raise UnsupportedConfigurationError(
                f'{configuration.path}, line {line}: participant "{me.name}" {what}, which the embedded backend does '
                "not know"
            )


def _check_iterations(element: Element, scheme: CouplingScheme) -> None:
    """Refuse measures and accelerations of data that whoever judges does not exchange, or, in series, send."""
    measured = {(one.mesh, one.data) for one in scheme.exchanges if scheme.controller in (one.source, one.target)}
    sent = {(one.mesh, one.data) for one in scheme.exchanges if scheme.controller == one.source}
    accelerated = [data for acceleration in element.named("acceleration:") for data in acceleration.named("data")]
    for child in (*element.children, *accelerated):
        place = child.attributes.get("mesh"), child.attributes.get("name", child.attributes.get("data"))
        known = sent if scheme.is_serial and child.tag == "data" else measured
        if (child.tag == "data" or child.tag.endswith("-convergence-measure")) and place not in known:
            what = f'data that "{scheme.controller}" {"sends" if known is sent else "exchanges"}'
            child.fail(what, f'"{place[1]}" on mesh "{place[0]}"', "add its <exchange>")


def _in_schemes(configuration: Configuration, me: ConfiguredParticipant) -> Iterator[tuple[int, str]]:
    schemes = Roles(configuration).schemes(me.name)
    implicit = [scheme for scheme in schemes if scheme.is_implicit]
    if len(implicit) > 1:
        yield implicit[1].line, "has a second implicit coupling scheme"
    for other in schemes[1:]:
        if not _fit_together(schemes[0], other, implicit[0] if implicit else None):
            yield other.line, "has coupling schemes whose time windows or ends do not fit together"


def _fit_together(first: CouplingScheme, other: CouplingScheme, implicit: CouplingScheme | None) -> bool:
    """Whether schemes have fixed windows and one end, explicit windows being multiples of implicit ones."""
    sizes = [scheme.time_window_size for scheme in (first, other)]
    ends = [(scheme.max_time_windows or math.inf) * scheme.time_window_size for scheme in (first, other)]
    together = first.max_time == other.max_time and math.isclose(*ends, rel_tol=1e-12)
    # As in CompositionalCouplingScheme.cpp.
    step = math.inf if implicit is None else implicit.time_window_size
    return together and (implicit is None or all(abs(math.remainder(size, step)) <= TOLERANCE for size in sizes))


def _in_exchanges(configuration: Configuration, me: ConfiguredParticipant) -> Iterator[tuple[int, str]]:
    provider_of = providers_of(me)
    mapped = (
        (str(mapping.target), data) for mapping in me.mappings for data in mapped_data(configuration, me, mapping)
    )
    filled = {*me.writes, *mapped}
    exchanges = [exchange for scheme in Roles(configuration).schemes(me.name) for exchange in scheme.exchanges]
    for exchange in exchanges:
        if me.name not in (exchange.source, exchange.target):
            continue
        if provider_of.get(exchange.mesh) not in (exchange.source, exchange.target):
            yield exchange.line, f'exchanges data on mesh "{exchange.mesh}", which neither of the two provides'
        if exchange.target == me.name:
            if (exchange.mesh, exchange.data) in filled:
                what = f'gets data "{exchange.data}" on mesh "{exchange.mesh}" from more than one place'
                yield exchange.line, what
            filled.add((exchange.mesh, exchange.data))


def _in_parallel(me: ConfiguredParticipant) -> Iterator[tuple[int, str]]:
    for mapping in me.mappings:
        if (mapping.direction == "write") != (mapping.constraint == "conservative"):
            what = "writes with a consistent" if mapping.direction == "write" else "reads with a conservative"
            yield mapping.element.line, f"{what} mapping on several ranks"
        if mapping.kind == "rbf":
            yield mapping.element.line, "runs on several ranks with <mapping:rbf …>"


def _check(element: Element, tag: Tag) -> None:
    kind = element.tag.partition(":")[0]
    rules = {name: _RULES.get(f"{kind}/{name}") or _RULES.get(name) for name in tag.attributes}
    for name, rule in rules.items():
        is_there = name in element.attributes
        if is_there and rule is None:
            known = ", ".join(other for other in rules if rules[other] is not None)
            _refuse(element, f"takes only the attributes {known or 'none'} in <{element.tag}>, found {name}")
        if rule is not None and (is_there or f"{kind}/{name}" in _REQUIRED):
            what, fits = rule
            if not is_there or not fits(element, name):
                value = f'{name}="{element.attributes[name]}"' if is_there else "none"
                _refuse(element, f'takes only {what} as "{name}" in <{element.tag}>, found {value}')
    for child in element.children:
        if child.tag not in _KNOWN_TAGS or (element.tag, child.tag) in _NOT_INSIDE:
            _refuse(child, f"does not know <{child.tag}> in <{element.tag}>")
        _check(child, tag.children[child.tag])


def _refuse(element: Element, what: str) -> None:
    raise UnsupportedConfigurationError(
        f"{element.path}, line {element.line}: the embedded backend {what}; if it is no mistake, libprecice does it: "
        "install libprecice and pyprecice, or change the configuration"
    )
