"""Reading the ``<coupling-scheme:…>`` elements (preCICE's ``CouplingSchemeConfiguration.cpp``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from precice_lb.precice_xml.elements import Reader
from precice_lb.precice_xml.records import M2N, ConvergenceMeasure, CouplingScheme, Element, Exchange, Mesh, Participant

_MEASURES = (
    "absolute-convergence-measure",
    "absolute-or-relative-convergence-measure",
    "relative-convergence-measure",
    "residual-relative-convergence-measure",
)


def read_coupling_scheme(
    reader: Reader,
    element: Element,
    meshes: Mapping[str, Mesh],
    participants: Mapping[str, Participant],
    m2ns: Sequence[M2N],
) -> CouplingScheme:
    """Read one coupling scheme and check it against the rest of the file.

    Raises
    ------
    ConfigurationError
        If it names something that is not there, lacks what preCICE requires, or couples without an m2n.
    """
    kind = element.tag.partition(":")[2]
    implicit = kind == "multi" or kind.endswith("implicit")
    members, controller = _read_members(reader, element, kind, participants)
    exchanges = tuple(
        _read_exchange(reader, child, meshes, participants, members, substeps=implicit)
        for child in element.named("exchange")
    )
    _check_pairs(reader, element, members, controller, exchanges, m2ns)
    max_time, max_windows = _optional(element, "max-time"), _optional(element, "max-time-windows")
    if max_time is None and max_windows is None:
        reader.fail(element, "<max-time> or <max-time-windows>", "neither", "say when the coupling ends")
    size, from_first = _read_window_size(reader, element)
    limit, least = _optional(element, "max-iterations"), _optional(element, "min-iterations")
    max_iterations = reader.integer(limit, "value", least=1) if limit is not None else None
    min_iterations = reader.integer(least, "value", least=1) if least is not None else 1
    if least is not None and max_iterations is not None and min_iterations > max_iterations:
        found = f"{min_iterations} and {max_iterations}"
        reader.fail(least, "at most <max-iterations>", found, "correct one of them")
    measures = tuple(_read_measure(reader, child, meshes) for child in element.named(*_MEASURES))
    if implicit and not measures and max_iterations is None:
        reader.fail(element, "a convergence measure or <max-iterations>", "neither", "add one")
    accelerations = element.named("acceleration:")
    return CouplingScheme(
        kind=kind,
        participants=members,
        controller=controller,
        exchanges=exchanges,
        time_window_size=size,
        window_size_from_first=from_first,
        max_time=_positive(reader, max_time) if max_time is not None else None,
        max_time_windows=reader.integer(max_windows, "value", least=1) if max_windows is not None else None,
        max_iterations=max_iterations,
        acceleration=accelerations[0].tag.partition(":")[2] if accelerations else None,
        line=element.line,
        measures=measures,
    )


def _optional(element: Element, tag: str) -> Element | None:
    return next(iter(element.named(tag)), None)


def _positive(reader: Reader, element: Element) -> float:
    value = reader.number(element, "value")
    if not value > 0:
        reader.fail(element, 'a positive "value"', f"{value:g}", "correct it")
    return value


def _read_members(
    reader: Reader, element: Element, kind: str, participants: Mapping[str, Participant]
) -> tuple[tuple[str, ...], str | None]:
    if kind == "multi":
        children = element.named("participant")
        names = tuple(reader.known(child, "name", "participant", participants) for child in children)
        if len(set(names)) < max(len(names), 2):
            reader.fail(element, "two or more different participants", ", ".join(names) or "none", "correct them")
        controllers = [n for n, child in zip(names, children, strict=True) if reader.boolean(child, "control")]
        if len(controllers) != 1:
            found = ", ".join(controllers) or "none"
            reader.fail(element, 'one participant with control="true"', found, "choose the controller")
        return names, controllers[0]
    (pair,) = element.named("participants")
    first = reader.known(pair, "first", "participant", participants)
    second = reader.known(pair, "second", "participant", participants)
    if first == second:
        reader.fail(pair, "two different participants", f'"{first}" twice', "correct it")
    return (first, second), None


def _read_exchange(
    reader: Reader,
    element: Element,
    meshes: Mapping[str, Mesh],
    participants: Mapping[str, Participant],
    members: tuple[str, ...],
    *,
    substeps: bool,
) -> Exchange:
    mesh = reader.known(element, "mesh", "mesh", meshes)
    data = reader.known(element, "data", f'data of mesh "{mesh}"', meshes[mesh].data)
    source = reader.known(element, "from", "participant of this coupling scheme", members)
    target = reader.known(element, "to", "participant of this coupling scheme", members)
    if source == target:
        reader.fail(element, "two different participants", f'"{source}" twice', "correct it")
    for name in (source, target):
        participant = participants[name]
        if mesh not in participant.provides and all(mesh != received.name for received in participant.receives):
            reader.fail(
                element, f'a mesh that "{name}" uses', f'"{mesh}"', "add <provide-mesh> or <receive-mesh> to it"
            )
    return Exchange(
        data=data,
        mesh=mesh,
        source=source,
        target=target,
        initialize=reader.boolean(element, "initialize"),
        substeps=reader.boolean(element, "substeps", substeps),
        line=element.line,
    )


def _read_measure(reader: Reader, element: Element, meshes: Mapping[str, Mesh]) -> ConvergenceMeasure:
    kind = element.tag.removesuffix("-convergence-measure")
    mesh = reader.known(element, "mesh", "mesh", meshes)
    data = reader.known(element, "data", f'data of mesh "{mesh}"', meshes[mesh].data)
    limits = {
        name: reader.number(element, name) for name in ("abs-limit", "rel-limit", "limit") if name in element.attributes
    }
    for name, limit in limits.items():
        relative = name == "rel-limit" or (name == "limit" and kind != "absolute")
        if not 0 < limit <= (1 if relative else math.inf):
            wanted = f"above 0{' and at most 1' if relative else ''}"
            reader.fail(element, f'a number {wanted} as "{name}"', f"{limit:g}", "correct it")
    limit = next(iter(limits.values()))
    return ConvergenceMeasure(kind, data, mesh, limit)


def _check_pairs(
    reader: Reader,
    element: Element,
    members: tuple[str, ...],
    controller: str | None,
    exchanges: tuple[Exchange, ...],
    m2ns: Sequence[M2N],
) -> None:
    """Check that whoever talks has an m2n: both participants, or the controller with everyone and each exchange."""
    if len({(e.data, e.mesh, e.source, e.target) for e in exchanges}) < len(exchanges):
        reader.fail(element, "every <exchange> once", "one twice", "remove the second")
    pairs = {frozenset((e.source, e.target)) for e in exchanges}
    pairs |= (
        {frozenset(members)}
        if controller is None
        else {frozenset((controller, n)) for n in members} - {frozenset((controller,))}
    )
    connected = {frozenset((m.acceptor, m.connector)) for m in m2ns}
    for pair in sorted(tuple(sorted(p)) for p in pairs - connected):
        reader.fail(element, f"an <m2n:…> between {' and '.join(pair)}", "none", "add it")


def _read_window_size(reader: Reader, element: Element) -> tuple[float, bool]:
    (child,) = element.named("time-window-size")
    if child.attributes.get("method") == "first-participant":
        return math.nan, True
    return _positive(reader, child), False
