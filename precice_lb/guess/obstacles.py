"""What stands in the way of a first guess, and what to know before one: each in one line that names line and tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from precice_lb.guess.routes import RELAXATIONS, carriers, routes, shifted_name
from precice_lb.precice_xml.elements import is_true
from precice_lb.precice_xml.records import Configuration, CouplingScheme, Element, Exchange, Mapping
from precice_lb.store.schema import SHIFTED_PREFIX as SHIFTED

# Where it is, its tag, and what is to say of it.
_Finding = tuple[int, str, str]
_HELD = "; while that is off by more than a factor of 3, the last value is the first guess"


def obstacles(configuration: Configuration) -> list[str]:
    """Say what stands in the way of a first guess, patched or not, in the order of the file."""
    return _lines(
        [
            *_in_root(configuration),
            *_in_schemes(configuration),
            *_in_mappings(configuration),
            *_in_meshes(configuration),
            *_in_data_flow(configuration),
            *_in_actions(configuration),
        ]
    )


def notes(configuration: Configuration) -> list[str]:
    """Say what does not stop a first guess but should be known, in the order of the file."""
    return _lines([*_measured(configuration), *_in_time(configuration)])


def _lines(found: Iterable[_Finding]) -> list[str]:
    return [f"line {line}, <{tag}>: {what}" for line, tag, what in sorted(set(found))]


# --- obstacles -----------------------------------------------------------------------------------------------------


def _in_root(configuration: Configuration) -> Iterator[_Finding]:
    root = configuration.root
    if not any(scheme.is_implicit for scheme in configuration.coupling_schemes):
        yield root.line, root.tag, "no coupling scheme iterates, so none has a first guess; take an implicit one"
    if is_true(root.attributes.get("allow-remeshing", "")):
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
            what = f'"{scheme.participants[1]}" does not know the next window\'s size; take method="fixed"'
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
                yield mapping.line, tag, "needs gradients, which predictions have not; take another mapping"
            if mapping.constraint.startswith("scaled-consistent"):
                yield mapping.line, tag, f'is not linear with constraint="{mapping.constraint}"; take consistent'
        for mapping in _just_in_time(configuration, way.exchange):
            what = "takes places anew in every call, so there are none to predict at; map between meshes"
            yield mapping.line, f"mapping:{mapping.kind}", what


def _just_in_time(configuration: Configuration, exchange: Exchange) -> Iterator[Mapping]:
    source, target = configuration.participants[exchange.source], configuration.participants[exchange.target]
    yield from (each for each in source.mappings if each.source is None and each.target == exchange.mesh)
    yield from (each for each in target.mappings if each.target is None and each.source == exchange.mesh)


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
        for who, own in ((way.exchange.source, way.write_mesh), (way.exchange.target, way.read_mesh))
        for place in ((who, own), (who, way.exchange.mesh))
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
        for acceleration in element.named("acceleration:"):
            if any(_place(data, "name") in shifted for data in acceleration.named("data")):
                for each in acceleration.named("preconditioner"):
                    if each.attributes.get("type") == "value":
                        yield each.line, each.tag, "sees the norms of shifted values, not those of the data"


def _in_time(configuration: Configuration) -> Iterator[_Finding]:
    for way in routes(configuration):
        data = configuration.data[way.exchange.data]
        if way.shifted and data.waveform_degree == 0:
            what = 'is constant in a time window with waveform-degree="0"; its value at the end is predicted'
            yield data.line, "data:vector" if data.is_vector else "data:scalar", what


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
    attributes = [name for each in elements if each.attributes["name"] == data for name in each.attributes]
    return any(name.startswith(("lower-bound", "upper-bound")) for name in attributes)
