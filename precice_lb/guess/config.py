"""First guesses in a configuration: for which data, what stands in the way, the patched copy, and who gets what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from precice_lb.case.config import (
    Configuration,
    CouplingScheme,
    Exchange,
    MeshMapping,
    parse_configuration,
)
from precice_lb.case.edits import Edit, apply, insert_before, insert_behind, set_attribute, written
from precice_lb.case.elements import Element, fail, load
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.guess.columns import PREFIX, SHIFTED

RELAXATIONS = ("aitken", "constant")
"""Accelerations with which convergence is judged by the shifted values; with others it is by the data itself."""


def guess_name(data: str) -> str:
    """Name the field that carries the predictions for data."""
    return f"{PREFIX}{data}"


def shifted_name(data: str) -> str:
    """Name the field that carries the shifted values of data."""
    return f"{SHIFTED}{data}"


def is_added(data: str) -> bool:
    """Whether data is one of these fields, which no solver knows of."""
    return data.startswith((PREFIX, SHIFTED))


@dataclass(frozen=True)
class Route:
    """The way of one field through an implicit coupling scheme, from a solver to another.

    Attributes
    ----------
    scheme : CouplingScheme
        The scheme.
    exchange : Exchange
        What is exchanged, on which mesh, between whom.
    write_mesh, read_mesh : str
        Meshes on which the one solver writes and the other reads.
    mappings : tuple of MeshMapping
        From the one to the other; none where it is the same mesh.
    shifted : bool
        Whether the reader starts a time window from the field's last value, so that there is something to predict. In
        a serial scheme what the first participant writes comes anew in every iteration; its ``Guess-of-…`` field says
        only that it takes part.
    """

    scheme: CouplingScheme
    exchange: Exchange
    write_mesh: str
    read_mesh: str
    mappings: tuple[MeshMapping, ...]
    shifted: bool


def is_patched(configuration: Configuration) -> bool:
    """Whether a configuration has fields that carry predictions."""
    return any(name.startswith(PREFIX) for name in configuration.data)


def routes(configuration: Configuration) -> tuple[Route, ...]:
    """Find the ways of all fields in implicit coupling schemes, in the file's order; predictions are none of them.

    A field that a solver writes on several meshes, or reads on several, has as many routes.
    """
    ways = []
    for scheme in configuration.coupling_schemes:
        if not scheme.is_implicit:
            continue
        for exchange in scheme.exchanges:
            if is_added(exchange.data):
                continue
            shifted = not scheme.sends_ahead(exchange.source)
            for write_mesh, writes in _ends(configuration, exchange, "write"):
                for read_mesh, reads in _ends(configuration, exchange, "read"):
                    ways.append(Route(scheme, exchange, write_mesh, read_mesh, (*writes, *reads), shifted))
    return tuple(ways)


def carriers(configuration: Configuration) -> tuple[Route, ...]:
    """Find the routes that a prediction goes along with: all that are shifted, and the first other one of a scheme."""
    chosen: list[Route] = []
    for route in routes(configuration):
        if route.shifted or not any(other.scheme is route.scheme and not other.shifted for other in chosen):
            chosen.append(route)
    return tuple(chosen)


_Way = tuple[str, tuple[MeshMapping, ...]]


def _ends(configuration: Configuration, exchange: Exchange, direction: str) -> list[_Way]:
    """Find the meshes that data is written, or read, on, with the mapping between it and what is exchanged."""
    me = configuration.participants[exchange.source if direction == "write" else exchange.target]
    pairs = me.writes if direction == "write" else me.reads
    ways: list[_Way] = [(exchange.mesh, ())]
    for mapping in me.mappings:
        ends = [mapping.source, mapping.target]
        here, there = ends if direction == "write" else ends[::-1]
        # Just-in-time mappings have no mesh here.
        if mapping.direction == direction and there == exchange.mesh and here is not None:
            ways.append((here, (mapping,)))
    return [(mesh, way) for mesh, way in ways if (mesh, exchange.data) in pairs]


@dataclass(frozen=True)
class GuessField:
    """A field at one of its ends.

    Attributes
    ----------
    mesh, data : str
        Names, as the solver gives them.
    route : Route
        The way that the field goes.
    degree : int
        Degree of its waveform in time.
    direct : bool
        Whether the mesh is another participant's, of which this one may have some vertices only.
    """

    mesh: str
    data: str
    route: Route
    degree: int
    direct: bool

    @property
    def key(self) -> tuple[str, str]:
        """Mesh and data."""
        return self.mesh, self.data

    @property
    def guess(self) -> str:
        """Name of the field with the predictions."""
        return guess_name(self.data)

    @property
    def shifted(self) -> str:
        """Name of the field with the shifted values."""
        return shifted_name(self.data)

    @property
    def initialized(self) -> bool:
        """Whether it starts from what its solver writes before the first time window, rather than from zero."""
        route = self.route
        ends = route.exchange.source, route.exchange.target
        return any(
            # One that is initialized takes all of its direction with it.
            exchange.initialize and (exchange.source, exchange.target) == ends and not is_added(exchange.data)
            for exchange in route.scheme.exchanges
        )

    @property
    def relaxed(self) -> bool:
        """Whether the shifted values are relaxed, by whatever factor."""
        return self.route.scheme.acceleration in RELAXATIONS

    @property
    def relative(self) -> bool:
        """Whether convergence is judged relative to the norm of the shifted values."""
        scheme, mesh = self.route.scheme, self.route.exchange.mesh
        return self.relaxed and any(
            "relative" in measure.kind and (measure.data, measure.mesh) == (self.shifted, mesh)
            for measure in scheme.measures
        )


@dataclass(frozen=True)
class GuessFields:
    """The fields of a participant that have predictions beside them, or the mere word that it takes part.

    Attributes
    ----------
    sent, received : tuple of GuessField
        By who writes.
    initializes : bool
        Whether the solver itself has initial data to write.
    """

    sent: tuple[GuessField, ...]
    received: tuple[GuessField, ...]
    initializes: bool

    @classmethod
    def of(cls, configuration: Configuration, participant: str) -> GuessFields | None:
        """Find a participant's fields; None where the configuration has no predictions for it."""
        if not is_patched(configuration):
            return None
        exchanges = [exchange for scheme in configuration.coupling_schemes for exchange in scheme.exchanges]
        carried = {(exchange.data, exchange.mesh, exchange.source, exchange.target) for exchange in exchanges}
        sent: list[GuessField] = []
        received: list[GuessField] = []
        for route in routes(configuration):
            exchange = route.exchange
            if (guess_name(exchange.data), exchange.mesh, exchange.source, exchange.target) in carried:
                degree = configuration.data[exchange.data].waveform_degree
                for name, mesh, fields in (
                    (exchange.source, route.write_mesh, sent),
                    (exchange.target, route.read_mesh, received),
                ):
                    if name == participant:
                        direct = mesh not in configuration.participants[name].provides
                        fields.append(GuessField(mesh, exchange.data, route, degree, direct))
        initialized = [
            exchange.data for exchange in exchanges if exchange.initialize and exchange.source == participant
        ]
        initializes = any(not is_added(data) for data in initialized)
        return cls(tuple(sent), tuple(received), initializes) if sent or received else None


# Where it is, its tag, and what is to say of it.
_Finding = tuple[int, str, str]
_HELD = "; while that is off by more than a factor of 3, the last value is the first guess"


def obstacles(configuration: Configuration) -> list[str]:
    """Say what stands in the way of a first guess, patched or not, in the order of the file."""
    kinds = (_in_root, _in_schemes, _in_mappings, _in_meshes, _in_data_flow, _in_actions)
    return _lines(finding for kind in kinds for finding in kind(configuration))


def notes(configuration: Configuration) -> list[str]:
    """Say what does not stop a first guess but should be known, in the order of the file."""
    return _lines(_measured(configuration))


def _lines(findings: Iterable[_Finding]) -> list[str]:
    return [f"line {line}, <{tag}>: {what}" for line, tag, what in sorted(set(findings))]


# --- obstacles -----------------------------------------------------------------------------------------------------


def _in_root(configuration: Configuration) -> Iterator[_Finding]:
    root = configuration.root
    if not any(scheme.is_implicit for scheme in configuration.coupling_schemes):
        yield root.line, root.tag, "no coupling scheme iterates, so none has a first guess; take an implicit one"
    if root.boolean("allow-remeshing"):
        yield root.line, root.tag, 'predictions would be lost with the vertices; set allow-remeshing="false"'


def _in_schemes(configuration: Configuration) -> Iterator[_Finding]:
    for scheme, element in _implicit(configuration):
        shifted = _shifted_places(configuration, scheme)
        heard = {way.exchange.source for way in routes(configuration) if way.scheme is scheme}
        for name in scheme.participants:
            if name not in heard:
                what = f'no solver reads what "{name}" writes, so it cannot say that it takes part; add <read-data>'
                yield element.line, element.tag, what
        for size in element.named("time-window-size") if scheme.window_size_from_first else ():
            what = f'"{scheme.controller}" does not know the next window\'s size; take method="fixed"'
            yield size.line, size.tag, what
        if scheme.acceleration in RELAXATIONS:
            for measure in element.named("residual-relative-convergence-measure"):
                if _place(measure, "data") in shifted:
                    what = "asks for the same reduction from any first guess, so a better one gains nothing"
                    yield measure.line, measure.tag, f"{what}; take an absolute or relative measure"
        for acceleration in element.named("acceleration:"):
            bounded = [data for data, _ in shifted if _has_bounds(configuration, data)]
            if bounded and acceleration.attributes.get("on-bound-violation", "ignore") != "ignore":
                what = f'cannot keep shifted values within the bounds of "{min(bounded)}"'
                yield acceleration.line, acceleration.tag, f'{what}; set on-bound-violation="ignore"'


def _in_mappings(configuration: Configuration) -> Iterator[_Finding]:
    for way in carriers(configuration):
        for mapping in way.mappings:
            tag = f"mapping:{mapping.kind}"
            if mapping.kind == "nearest-neighbor-gradient":
                yield mapping.element.line, tag, "needs gradients, which predictions have not; take another mapping"
            if mapping.constraint.startswith("scaled-consistent"):
                yield (
                    mapping.element.line,
                    tag,
                    f'is not linear with constraint="{mapping.constraint}"; take consistent',
                )
        for name, end, free in ((way.exchange.source, "target", "source"), (way.exchange.target, "source", "target")):
            for mapping in configuration.participants[name].mappings:
                if getattr(mapping, free) is None and getattr(mapping, end) == way.exchange.mesh:
                    what = "takes places anew in every call, so there are none to predict at; map between meshes"
                    yield mapping.element.line, f"mapping:{mapping.kind}", what


def _in_meshes(configuration: Configuration) -> Iterator[_Finding]:
    for way in carriers(configuration):
        for received in configuration.participants[way.exchange.source].receives:
            if received.name == way.write_mesh and received.api_access:
                what = f'with api-access "{way.exchange.source}" cannot initialize data on it'
                yield received.line, "receive-mesh", f"{what}; turn that off, and map to it"


def _in_data_flow(configuration: Configuration) -> Iterator[_Finding]:
    ways = [way for way in routes(configuration) if way.shifted]
    for way in ways:
        if sum(other.scheme is way.scheme and other.exchange == way.exchange for other in ways) > 1:
            what = f'"{way.exchange.data}" is written on or read from several meshes; take other data for each'
            yield way.exchange.line, "exchange", what


def _in_actions(configuration: Configuration) -> Iterator[_Finding]:
    # Participant and mesh.
    shifted = {
        place: way.exchange.data
        for way in routes(configuration)
        if way.shifted
        for who, mesh in ((way.exchange.source, way.write_mesh), (way.exchange.target, way.read_mesh))
        for place in ((who, mesh), (who, way.exchange.mesh))
    }
    for participant in configuration.root.named("participant"):
        for action in participant.named("action:"):
            place = (participant.attributes["name"], action.attributes["mesh"])
            if place in shifted:
                what = f'acts on a mesh where "{shifted[place]}" is shifted, and not on that; let the solver do it'
                yield action.line, action.tag, what


# --- notes ---------------------------------------------------------------------------------------------------------


def _measured(configuration: Configuration) -> Iterator[_Finding]:
    for scheme, element in _implicit(configuration):
        shifted = _shifted_places(configuration, scheme)
        if not scheme.measures:
            yield element.line, element.tag, "always does max-iterations, so a better first guess saves none of them"
        relative = element.named("relative-convergence-measure", "absolute-or-relative-convergence-measure")
        for measure in relative if scheme.acceleration in RELAXATIONS else ():
            if _place(measure, "data") in shifted:
                name = measure.attributes["data"].removeprefix(SHIFTED)
                yield measure.line, measure.tag, f'sees the norm of the shifted "{name}"{_HELD}'


# --- what both look at ---------------------------------------------------------------------------------------------


def _implicit(configuration: Configuration) -> list[tuple[CouplingScheme, Element]]:
    elements = configuration.root.named("coupling-scheme:")
    pairs = zip(configuration.coupling_schemes, elements, strict=True)
    return [(scheme, element) for scheme, element in pairs if scheme.is_implicit]


def _shifted_places(configuration: Configuration, scheme: CouplingScheme) -> set[tuple[str, str]]:
    """Name data that is shifted and its mesh in a scheme, by its own name and by that of its shifted values."""
    ways = [way for way in routes(configuration) if way.scheme is scheme and way.shifted]
    return {(name, way.exchange.mesh) for way in ways for name in (way.exchange.data, shifted_name(way.exchange.data))}


def _place(element: Element, name: str) -> tuple[str, str]:
    return element.attributes[name], element.attributes["mesh"]


def _has_bounds(configuration: Configuration, data: str) -> bool:
    elements = configuration.root.named("data:scalar", "data:vector")
    attributes = [name for element in elements if element.attributes["name"] == data for name in element.attributes]
    return any(name.startswith(("lower-bound", "upper-bound")) for name in attributes)


_SLIDE = "RS-SLIDE"
_LIMITS = {"limit", "abs-limit", "rel-limit"}


def patch_guess(source: str | Path, target: str | Path, *, limits: float = 1.0) -> None:
    """Write a copy of `source` in which predictions travel beside the data of implicit coupling schemes.

    Beside each field whose last value is a solver's first guess, the copy has ``Shifted-…``, its values less what is
    predicted of them, which is accelerated in its place, and ``Guess-of-…``, the prediction. With relaxation as the
    acceleration, convergence is judged by the shifted values too. In a serial scheme one field of the first solver gets
    ``Guess-of-…`` alone, to say that it takes part. IQN-IMVJ gets the restart mode RS-SLIDE in place of RS-SVD, its
    default, which in preCICE 3.4 takes more iterations with data beside the accelerated, and of RS-LS, which is alike.
    Everything else stays as it is, byte for byte.

    Parameters
    ----------
    source, target
        Paths of the configuration to read and of the copy to write.
    limits
        Factor on the limits of all convergence measures of implicit schemes. Windows that need fewer iterations end
        less far below their limits: one half makes up for it.

    Raises
    ------
    ConfigurationError
        If `source` cannot be read, is patched already, or is `target`, or if `limits` is no factor from 0 to 1.
    UnsupportedConfigurationError
        If something stands in the way of a first guess (see `obstacles`).
    """
    path, copy = Path(source), Path(target)
    if copy.resolve() == path.resolve():
        raise ConfigurationError(f"{copy}: expected the name of a copy, found the configuration itself; give another")
    if not 0.0 < limits <= 1.0:
        raise ConfigurationError(f"expected a factor on the limits above 0 and of at most 1, found {limits:g}")
    text, encoding = load(path)
    configuration = parse_configuration(text, path)
    for data in configuration.data.values():
        if is_added(data.name):
            fail(path, data.line, "a configuration that is not patched", f'data "{data.name}"', "patch its original")
    if problems := obstacles(configuration):
        more = f" (and {len(problems) - 1} more, see precice-lb guess check)" if len(problems) > 1 else ""
        raise UnsupportedConfigurationError(f"{path}, {problems[0]}{more}")
    patched = apply(text, [*_edits(configuration), *_limit_edits(configuration, limits)])
    # What cannot be read must not be left to a run.
    parse_configuration(patched, copy)
    copy.write_bytes(patched.encode(encoding))


def _edits(configuration: Configuration) -> Iterator[Edit]:
    ways = carriers(configuration)
    guessed, shifted = _places(ways), _places([way for way in ways if way.shifted])
    root = configuration.root
    for parent in (root, *root.children):
        for element in parent.children:
            names = parent.attributes.get("name", ""), element.attributes.get("mesh", "")
            place = element.tag.partition(":")[0], *names, element.attributes.get("name", "")
            if place in guessed:
                yield _named_beside(configuration.text, element, place in shifted)
    for element, scheme in zip(root.named("coupling-scheme:"), configuration.coupling_schemes, strict=True):
        yield from _in_scheme(configuration.text, element, scheme, [way for way in ways if way.scheme is scheme])


def _places(ways: Sequence[Route]) -> set[tuple[str, ...]]:
    """Say where data is named on its ways: tag, name of what that stands in, mesh where there is one, and data."""
    places: set[tuple[str, ...]] = set()
    for way in ways:
        exchange, data = way.exchange, way.exchange.data
        places |= {("use-data", mesh, "", data) for mesh in (way.write_mesh, exchange.mesh, way.read_mesh)}
        places |= {("data", "", "", data), ("write-data", exchange.source, way.write_mesh, data)}
        places.add(("read-data", exchange.target, way.read_mesh, data))
    return places


def _named_beside(text: str, element: Element, shifted: bool) -> Edit:
    name = element.attributes["name"]

    def named(other: str, *kept: str) -> str:
        rest = {key: value for key, value in element.attributes.items() if key in kept}
        return written(element.tag, {"name": other, **rest})

    added = [named(shifted_name(name), "mesh", "waveform-degree")] if shifted else []
    return insert_behind(text, element, *added, named(guess_name(name), "mesh"))


def _in_scheme(text: str, element: Element, scheme: CouplingScheme, ways: Sequence[Route]) -> Iterator[Edit]:
    sent = {way.exchange: way.shifted for way in ways}
    for child, exchange in zip(element.named("exchange"), scheme.exchanges, strict=True):
        if exchange in sent:
            guess = {name: child.attributes[name] for name in ("data", "mesh", "from", "to")}
            guess |= {"data": guess_name(exchange.data), "initialize": "true", "substeps": "false"}
            shifted = {**child.attributes, "data": shifted_name(exchange.data)}
            both = [shifted, guess] if sent[exchange] else [guess]
            yield insert_behind(text, child, *(written("exchange", values) for values in both))
    measures = [child for child in element.children if child.tag.endswith("-convergence-measure")]
    named = [(measure, "data") for measure in measures if scheme.acceleration in RELAXATIONS]
    named += [
        (child, "name") for acceleration in element.named("acceleration:") for child in acceleration.named("data")
    ]
    of_shifted = {(exchange.mesh, exchange.data) for exchange, is_shifted in sent.items() if is_shifted}
    for child, key in named:
        if (child.attributes["mesh"], child.attributes[key]) in of_shifted:
            yield set_attribute(text, child, key, shifted_name(child.attributes[key]))
    for acceleration in element.named("acceleration:IQN-IMVJ") if of_shifted else ():
        yield from _restart_mode(text, acceleration)


def _limit_edits(configuration: Configuration, factor: float) -> Iterator[Edit]:
    for scheme in configuration.root.named("coupling-scheme:") if factor < 1.0 else ():
        for measure in scheme.children:
            if measure.tag.endswith("-convergence-measure"):
                for key in sorted(measure.attributes.keys() & _LIMITS):
                    value = f"{factor * float(measure.attributes[key]):.6g}"
                    yield set_attribute(configuration.text, measure, key, value)


def _restart_mode(text: str, acceleration: Element) -> Iterator[Edit]:
    """Restart IQN-IMVJ by a mode that is none the worse for data beside the accelerated; others are."""
    if acceleration.boolean("always-build-jacobian"):
        return
    modes = acceleration.named("imvj-restart-mode")
    if not modes:
        restart = written("imvj-restart-mode", {"type": _SLIDE})
        yield insert_before(text, acceleration.children[0], restart)
    elif modes[0].attributes.get("type") in ("RS-SVD", "RS-LS"):
        yield set_attribute(text, modes[0], "type", _SLIDE)
