"""First guesses in a configuration: for which data, what stands in the way, the patched copy, and who gets what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from precice_lb.case.config import Configuration, CouplingScheme, Exchange, MeshMapping, parse_configuration
from precice_lb.case.edits import Edit, apply, insert_before, insert_behind, set_attribute, written
from precice_lb.case.elements import Element, fail, load
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.guess.columns import PREFIX, SHIFTED

RELAXATIONS = ("aitken", "constant")
"""Accelerations with which convergence is judged by the shifted values; with others it is by the data itself."""

_SLIDE = "RS-SLIDE"


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
    """The way of one field through an implicit coupling scheme, from a solver to another."""

    scheme: CouplingScheme
    # What is exchanged, on which mesh, between whom.
    exchange: Exchange
    # Meshes on which the one solver writes and the other reads, with the mappings in between.
    write_mesh: str
    read_mesh: str
    mappings: tuple[MeshMapping, ...]
    # Whether the reader starts a time window from the field's last value, so that there is something to predict. In a
    # serial scheme what the first participant writes comes anew in every iteration; its ``Guess-of-…`` field says only
    # that it takes part.
    shifted: bool

    @property
    def initialized(self) -> bool:
        """Whether it starts from what its solver writes before the first time window, rather than from zero."""
        ends = self.exchange.source, self.exchange.target
        # One that is initialized takes all of its direction with it.
        return any(
            exchange.initialize and (exchange.source, exchange.target) == ends and not is_added(exchange.data)
            for exchange in self.scheme.exchanges
        )

    @property
    def relaxed(self) -> bool:
        """Whether the shifted values are relaxed, by whatever factor."""
        return self.scheme.acceleration in RELAXATIONS

    @property
    def relative(self) -> bool:
        """Whether convergence is judged relative to the norm of the shifted values."""
        judged = shifted_name(self.exchange.data), self.exchange.mesh
        measures = self.scheme.measures
        return self.relaxed and any("relative" in one.kind and (one.data, one.mesh) == judged for one in measures)


def is_patched(configuration: Configuration) -> bool:
    """Whether a configuration has fields that carry predictions."""
    return any(name.startswith(PREFIX) for name in configuration.data)


def routes(configuration: Configuration) -> list[Route]:
    """Find the ways of all fields in implicit coupling schemes, in the file's order; predictions are none of them.

    A field that a solver writes on several meshes, or reads on several, has as many routes.
    """
    return [
        Route(scheme, exchange, written_on, read_on, (*writes, *reads), not scheme.sends_ahead(exchange.source))
        for scheme in configuration.coupling_schemes
        if scheme.is_implicit
        for exchange in scheme.exchanges
        if not is_added(exchange.data)
        for written_on, writes in _ends(configuration, exchange, "write")
        for read_on, reads in _ends(configuration, exchange, "read")
    ]


def carriers(configuration: Configuration) -> list[Route]:
    """Find the routes that a prediction goes along with: all that are shifted, and the first other one of a scheme."""
    chosen: list[Route] = []
    for route in routes(configuration):
        if route.shifted or not any(other.scheme is route.scheme and not other.shifted for other in chosen):
            chosen.append(route)
    return chosen


def _ends(
    configuration: Configuration, exchange: Exchange, direction: str
) -> list[tuple[str, tuple[MeshMapping, ...]]]:
    """Find the meshes that data is written, or read, on, with the mapping between it and what is exchanged."""
    writes = direction == "write"
    me = configuration.participants[exchange.source if writes else exchange.target]
    ways: list[tuple[str, tuple[MeshMapping, ...]]] = [(exchange.mesh, ())]
    for mapping in me.mappings:
        here, there = (mapping.source, mapping.target) if writes else (mapping.target, mapping.source)
        # Just-in-time mappings have no mesh here.
        if mapping.direction == direction and there == exchange.mesh and here is not None:
            ways.append((here, (mapping,)))
    return [(mesh, way) for mesh, way in ways if (mesh, exchange.data) in (me.writes if writes else me.reads)]


@dataclass(frozen=True)
class GuessField:
    """A field at one of its ends."""

    # As the solver names them, and the fields with the predictions and with the shifted values.
    mesh: str
    data: str
    guess: str
    shifted: str
    route: Route
    # Of its waveform in time.
    degree: int
    # Whether the mesh is another participant's, of which this one may have some vertices only.
    direct: bool


@dataclass(frozen=True)
class GuessFields:
    """The fields of a participant that have predictions beside them, or the mere word that it takes part."""

    # By who writes.
    sent: tuple[GuessField, ...]
    received: tuple[GuessField, ...]
    # Whether the solver itself has initial data to write.
    initializes: bool

    @classmethod
    def of(cls, configuration: Configuration, participant: str) -> GuessFields | None:
        """Find a participant's fields; None where the configuration has no predictions for it."""

        def field(route: Route, mesh: str) -> GuessField:
            data, degree = route.exchange.data, configuration.data[route.exchange.data].waveform_degree
            is_direct = mesh not in configuration.participants[participant].provides
            return GuessField(mesh, data, guess_name(data), shifted_name(data), route, degree, is_direct)

        ways = carriers(configuration) if is_patched(configuration) else []
        sent = tuple(field(way, way.write_mesh) for way in ways if way.exchange.source == participant)
        received = tuple(field(way, way.read_mesh) for way in ways if way.exchange.target == participant)
        initializes = any(
            exchange.initialize and exchange.source == participant and not is_added(exchange.data)
            for scheme in configuration.coupling_schemes
            for exchange in scheme.exchanges
        )
        return cls(sent, received, initializes) if sent or received else None


# Where it is, its tag, and what is to say of it.
_Finding = tuple[int, str, str]


def obstacles(configuration: Configuration) -> list[str]:
    """Say what stands in the way of a first guess, patched or not, in the order of the file."""
    findings = {*_in_schemes(configuration), *_on_the_way(configuration)}
    return [f"line {line}, <{tag}>: {what}" for line, tag, what in sorted(findings)]


def _in_schemes(configuration: Configuration) -> Iterator[_Finding]:
    root, ways = configuration.root, routes(configuration)
    if not any(scheme.is_implicit for scheme in configuration.coupling_schemes):
        yield root.line, root.tag, "no coupling scheme iterates, so none has a first guess; take an implicit one"
    if root.boolean("allow-remeshing"):
        yield root.line, root.tag, 'predictions would be lost with the vertices; set allow-remeshing="false"'
    for scheme, element in zip(configuration.coupling_schemes, root.named("coupling-scheme:"), strict=True):
        if not scheme.is_implicit:
            continue
        heard = {way.exchange.source for way in ways if way.scheme is scheme}
        for name in scheme.participants:
            if name not in heard:
                what = f'no solver reads what "{name}" writes, so it cannot say that it takes part; add <read-data>'
                yield element.line, element.tag, what
        for size in element.named("time-window-size") if scheme.window_size_from_first else ():
            what = f'"{scheme.controller}" does not know the next window\'s size; take method="fixed"'
            yield size.line, size.tag, what
        for acceleration in element.named("acceleration:"):
            if acceleration.attributes.get("on-bound-violation", "ignore") != "ignore":
                what = 'cannot keep shifted values within bounds; set on-bound-violation="ignore"'
                yield acceleration.line, acceleration.tag, what


def _on_the_way(configuration: Configuration) -> Iterator[_Finding]:
    ways, meshes = routes(configuration), set[str]()
    for way in carriers(configuration):
        exchange = way.exchange
        source, target = (configuration.participants[name] for name in (exchange.source, exchange.target))
        for mapping in way.mappings:
            line, tag = mapping.element.line, f"mapping:{mapping.kind}"
            if mapping.kind == "nearest-neighbor-gradient":
                yield line, tag, "needs gradients, which predictions have not; take another mapping"
            if mapping.constraint.startswith("scaled-consistent"):
                yield line, tag, f'is not linear with constraint="{mapping.constraint}"; take consistent'
        just_in_time = [m for m in source.mappings if m.source is None and m.target == exchange.mesh]
        just_in_time += [m for m in target.mappings if m.target is None and m.source == exchange.mesh]
        for mapping in just_in_time:
            what = "takes places anew in every call, so there are none to predict at; map between meshes"
            yield mapping.element.line, f"mapping:{mapping.kind}", what
        for received in source.receives:
            if received.name == way.write_mesh and received.api_access:
                what = f'with api-access "{source.name}" cannot initialize data on it; turn that off, and map to it'
                yield received.line, "receive-mesh", what
        if way.shifted:
            meshes |= {way.write_mesh, exchange.mesh, way.read_mesh}
            if sum(other.scheme is way.scheme and other.exchange == exchange for other in ways) > 1:
                what = f'"{exchange.data}" is written on or read from several meshes; take other data for each'
                yield exchange.line, "exchange", what
    for participant in configuration.root.named("participant"):
        for action in participant.named("action:"):
            if action.attributes["mesh"] in meshes:
                what = "acts on a mesh of data that is shifted, and not on that; let the solver do it"
                yield action.line, action.tag, what


def patch_guess(source: str | Path, target: str | Path) -> None:
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

    Raises
    ------
    ConfigurationError
        If `source` cannot be read, is patched already, or is `target`.
    UnsupportedConfigurationError
        If something stands in the way of a first guess (see `obstacles`).
    """
    path, copy = Path(source), Path(target)
    if copy.resolve() == path.resolve():
        raise ConfigurationError(f"{copy}: expected the name of a copy, found the configuration itself; give another")
    text, encoding = load(path)
    configuration = parse_configuration(text, path)
    for data in configuration.data.values():
        if is_added(data.name):
            fail(path, data.line, "a configuration that is not patched", f'data "{data.name}"', "patch its original")
    if problems := obstacles(configuration):
        raise UnsupportedConfigurationError(f"{path}, {'; '.join(problems)}")
    patched = apply(text, list(_edits(configuration)))
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
