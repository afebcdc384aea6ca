"""What ``precice-config.xml`` says: the rules and defaults of preCICE 3.4 (its ``*Configuration.cpp`` files)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from precice_lb.case.elements import Element, load, parse, schema

_MEASURE = "-convergence-measure"
# How preCICE names the kinds of convergence measures in its logs.
_ABBREVIATIONS = {
    "absolute": "Abs",
    "relative": "Rel",
    "residual-relative": "Drop",
    "absolute-or-relative": "AbsOrRel",
}


class Data(NamedTuple):
    """One ``<data:scalar>`` or ``<data:vector>``."""

    name: str
    is_vector: bool
    waveform_degree: int
    line: int


class Mesh(NamedTuple):
    """One ``<mesh>`` of 2 or 3 dimensions, with the names of the data it uses."""

    name: str
    dimensions: int
    data: tuple[str, ...]


class ReceivedMesh(NamedTuple):
    """One ``<receive-mesh>`` of a participant."""

    name: str
    # The participant.
    provider: str
    # Share of the longest edge of the mesh's box.
    safety_factor: float
    # ``on-secondary-ranks``, ``on-primary-rank`` or ``no-filter``.
    geometric_filter: str
    # Direct access to the mesh.
    api_access: bool
    line: int


@dataclass(frozen=True)
class MeshMapping:
    """One ``<mapping:…>`` of a participant."""

    # ``nearest-neighbor``, ``rbf``, …
    kind: str
    # ``read`` or ``write``.
    direction: str
    # ``consistent``, ``conservative``, …
    constraint: str
    # Meshes: ``from`` and ``to``; one is None for just-in-time mappings.
    source: str | None
    target: str | None
    element: Element = field(compare=False)


class ConfiguredParticipant(NamedTuple):
    """One ``<participant>``: its meshes, data and mappings."""

    name: str
    # Meshes.
    provides: tuple[str, ...]
    receives: tuple[ReceivedMesh, ...]
    # Mesh and data.
    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    mappings: tuple[MeshMapping, ...]
    line: int


@dataclass(frozen=True)
class M2N:
    """One ``<m2n:…>`` between two participants."""

    # ``sockets``, ``mpi``, …
    kind: str
    acceptor: str
    connector: str
    # As written, relative to the working directory of the solver.
    exchange_directory: str
    use_two_level_initialization: bool
    element: Element = field(compare=False)


@dataclass(frozen=True)
class Exchange:
    """One ``<exchange>`` of a coupling scheme, from one participant to another."""

    data: str
    mesh: str
    source: str
    target: str
    initialize: bool
    substeps: bool
    line: int


class ConvergenceMeasure(NamedTuple):
    """One ``<…-convergence-measure>`` of an implicit coupling scheme."""

    # One of ``absolute``, ``relative``, ``residual-relative`` and ``absolute-or-relative``.
    kind: str
    data: str
    mesh: str
    # Of ``absolute-or-relative`` the absolute one.
    limit: float

    @property
    def header(self) -> str:
        """Column of ``precice-<Participant>-convergence.log``."""
        return f"Res{_ABBREVIATIONS[self.kind]}({self.mesh}:{self.data})"


@dataclass(frozen=True)
class CouplingScheme:
    """One ``<coupling-scheme:…>``."""

    # ``serial-explicit``, ``parallel-explicit``, ``serial-implicit``, ``parallel-implicit`` or ``multi``.
    kind: str
    # First and second; multi: as listed.
    participants: tuple[str, ...]
    # Who tells whether an iteration has converged, and accelerates: the second of two, or of several the controller.
    controller: str
    # In the file's order.
    exchanges: tuple[Exchange, ...]
    # Simulated seconds; NaN where the first participant tells it (``method="first-participant"``).
    time_window_size: float
    window_size_from_first: bool
    # Simulated seconds.
    max_time: float | None
    max_time_windows: int | None
    # None for explicit schemes and where the file sets no limit.
    max_iterations: int | None
    # Its kind.
    acceleration: str | None
    line: int
    # In the file's order; without one an implicit scheme does exactly ``max_iterations`` in every window.
    measures: tuple[ConvergenceMeasure, ...] = ()

    @property
    def is_implicit(self) -> bool:
        """Whether the scheme iterates within a time window."""
        return self.kind.endswith("implicit") or self.kind == "multi"

    @property
    def is_serial(self) -> bool:
        """Whether the two participants run one after the other."""
        return self.kind.startswith("serial")

    def sends_ahead(self, source: str) -> bool:
        """Whether what a participant sends is there before its partner computes: the first one's of a serial scheme."""
        return self.is_serial and source != self.controller

    @property
    def windows(self) -> int | None:
        """Its time windows until it ends; None where there is no end, or nobody knows how long they are."""
        ends = [] if self.max_time_windows is None else [self.max_time_windows]
        if self.max_time is not None and not self.window_size_from_first:
            # A window is not left out for the rounding of its end.
            ends.append(max(math.ceil(self.max_time / self.time_window_size * (1.0 - 1e-9)), 1))
        return min(ends, default=None)


@dataclass(frozen=True)
class Configuration:
    """A whole ``precice-config.xml``. Mappings from names keep the order of the file.

    Attributes
    ----------
    path : Path
        The file.
    text : str
        All of it.
    data : dict of str to Data
        By name.
    meshes : dict of str to Mesh
        By name.
    participants : dict of str to ConfiguredParticipant
        By name.
    m2ns : tuple of M2N
        In the file's order.
    coupling_schemes : tuple of CouplingScheme
        In the file's order.
    root : Element
        The raw document.
    """

    path: Path
    text: str
    data: dict[str, Data]
    meshes: dict[str, Mesh]
    participants: dict[str, ConfiguredParticipant]
    m2ns: tuple[M2N, ...]
    coupling_schemes: tuple[CouplingScheme, ...]
    root: Element

    @property
    def providers(self) -> dict[str, str]:
        """The participant that provides each mesh."""
        return {mesh: who.name for who in self.participants.values() for mesh in who.provides}

    @property
    def longest_window(self) -> float:
        """Simulated seconds of a time window, the longest where schemes differ; NaN where participants size them."""
        sizes = [scheme.time_window_size for scheme in self.coupling_schemes if not scheme.window_size_from_first]
        return max(sizes, default=math.nan)

    @property
    def windows(self) -> int | None:
        """Time windows, the longest where schemes differ, until the first scheme ends; None where there is no end."""
        ends = []
        for scheme in self.coupling_schemes:
            if (count := scheme.windows) is not None:
                share = 1.0 if scheme.window_size_from_first else scheme.time_window_size / self.longest_window
                ends.append(max(math.ceil(count * share * (1.0 - 1e-9)), 1))
        return min(ends, default=None)


def read_configuration(path: str | Path) -> Configuration:
    """Read what a preCICE 3 configuration says.

    Everything that preCICE 3 allows is read, with its defaults; whether a backend or a schedule supports it is theirs
    to say. Tags, attributes and names are checked; what else contradicts itself is left to preCICE, which refuses it
    when a solver starts.

    Parameters
    ----------
    path
        The ``precice-config.xml``.

    Returns
    -------
    Configuration
        The records, in the order of the file, and the element tree for everything else.

    Raises
    ------
    ConfigurationError
        If the file is missing, is no well-formed XML, belongs to preCICE 2, or contradicts itself: one line with what
        was expected, what was found, where, and what to do.
    """
    path = Path(path)
    return parse_configuration(load(path)[0], path)


def parse_configuration(text: str, path: str | Path = "precice-config.xml") -> Configuration:
    """Read a configuration whose text is at hand, as `read_configuration` does; the same text is read once.

    Parameters
    ----------
    text : str
        All of the file.
    path : path
        For messages.

    Returns
    -------
    Configuration

    Raises
    ------
    ConfigurationError
        As `read_configuration`.
    """
    return _parsed(text, Path(path))


@lru_cache(maxsize=64)
def _parsed(text: str, path: Path) -> Configuration:
    root = parse(path, text)
    for old in (root, *root.children):
        if old.tag == "solver-interface":
            old.fail("a configuration of preCICE 3", "one of preCICE 2", "port it to preCICE 3")
    if root.tag != "precice-configuration":
        root.fail("<precice-configuration>", "another root element", "give a preCICE configuration")
    schema().check(root)
    data = {element.text("name"): _data(element) for element in root.named("data:")}
    meshes = {element.text("name"): _mesh(element, data) for element in root.named("mesh")}
    owners = root.named("participant")
    names = [element.text("name") for element in owners]
    participants = {name: _participant(element, meshes, names) for name, element in zip(names, owners, strict=True)}
    for element in (element for owner in owners for element in owner.named("receive-mesh")):
        mesh, provider = element.attributes["name"], element.attributes["from"]
        if mesh not in participants[provider].provides:
            element.fail(f'a participant that provides mesh "{mesh}"', f'"{provider}"', "add <provide-mesh> there")
    m2ns = tuple(_m2n(element, names) for element in root.named("m2n:"))
    case = Configuration(path, text, data, meshes, participants, m2ns, (), root)
    return replace(case, coupling_schemes=tuple(_scheme(element, case) for element in root.named("coupling-scheme:")))


def _data(element: Element) -> Data:
    degree = element.integer("waveform-degree", "1")
    return Data(element.text("name"), element.kind == "vector", degree, element.line)


def _mesh(element: Element, data: Mapping[str, Data]) -> Mesh:
    used = tuple(child.known("name", "data", data) for child in element.children)
    return Mesh(element.text("name"), element.integer("dimensions"), used)


def _participant(element: Element, meshes: Mapping[str, Mesh], participants: list[str]) -> ConfiguredParticipant:
    provides = tuple(child.known("name", "mesh", meshes) for child in element.named("provide-mesh"))
    receives = tuple(_received(child, meshes, participants) for child in element.named("receive-mesh"))
    used = (*provides, *(mesh.name for mesh in receives))
    reads, writes = (
        tuple(
            (child.known("mesh", "mesh of this participant", used), _data_of(child, meshes, "name"))
            for child in element.named(tag)
        )
        for tag in ("read-data", "write-data")
    )
    mappings = tuple(_mapping(child, used) for child in element.named("mapping:"))
    return ConfiguredParticipant(element.text("name"), provides, receives, reads, writes, mappings, element.line)


def _received(element: Element, meshes: Mapping[str, Mesh], participants: list[str]) -> ReceivedMesh:
    name, provider = element.known("name", "mesh", meshes), element.known("from", "participant", participants)
    geometric_filter = element.text("geometric-filter", "on-secondary-ranks")
    api_access = element.boolean("api-access") or element.boolean("direct-access")
    factor = element.number("safety-factor", "0.5", least=0)
    return ReceivedMesh(name, provider, factor, geometric_filter, api_access, element.line)


def _data_of(element: Element, meshes: Mapping[str, Mesh], name: str = "data") -> str:
    """Name the data of an element, which the mesh that it names has to have."""
    mesh = element.known("mesh", "mesh", meshes)
    return element.known(name, f'data of mesh "{mesh}"', meshes[mesh].data)


def _mapping(element: Element, meshes: tuple[str, ...]) -> MeshMapping:
    # preCICE takes an empty name for none at all: a just-in-time mapping.
    source, target = (
        element.known(name, "mesh of this participant", meshes) if element.attributes.get(name) else None
        for name in ("from", "to")
    )
    return MeshMapping(element.kind, element.text("direction"), element.text("constraint"), source, target, element)


def _m2n(element: Element, participants: list[str]) -> M2N:
    acceptor, connector = (element.known(name, "participant", participants) for name in ("acceptor", "connector"))
    place, two_level = element.text("exchange-directory", "."), element.boolean("use-two-level-initialization")
    return M2N(element.kind, acceptor, connector, place, two_level, element)


def _scheme(element: Element, case: Configuration) -> CouplingScheme:
    kind = element.kind
    implicit = kind == "multi" or kind.endswith("implicit")
    members, controller = _members(element, kind, case.participants)
    exchanges = tuple(_exchange(child, case, members, implicit) for child in element.named("exchange"))
    # Whoever talks has an m2n: the controller with everyone, and each exchange.
    talking = {(controller, name) for name in members if name != controller} | {(e.source, e.target) for e in exchanges}
    connected = {frozenset((m.acceptor, m.connector)) for m in case.m2ns}
    for pair in sorted({tuple(sorted(pair)) for pair in talking if frozenset(pair) not in connected}):
        element.fail(f"an <m2n:…> between {' and '.join(pair)}", "none", "add it")
    max_time, max_time_windows = element.first("max-time"), _count(element, "max-time-windows")
    if max_time is None and max_time_windows is None:
        element.fail("<max-time> or <max-time-windows>", "neither", "say when the coupling ends")
    acceleration = element.first("acceleration:")
    (size,) = element.named("time-window-size")
    from_first = size.attributes.get("method") == "first-participant"
    return CouplingScheme(
        kind=kind,
        participants=members,
        controller=controller,
        exchanges=exchanges,
        time_window_size=math.nan if from_first else size.positive("value"),
        window_size_from_first=from_first,
        max_time=None if max_time is None else max_time.positive("value"),
        max_time_windows=max_time_windows,
        max_iterations=_count(element, "max-iterations"),
        acceleration=None if acceleration is None else acceleration.kind,
        line=element.line,
        measures=tuple(_measure(child, case.meshes) for child in element.children if child.tag.endswith(_MEASURE)),
    )


def _count(element: Element, tag: str) -> int | None:
    limit = element.first(tag)
    return None if limit is None else limit.integer("value", least=1)


def _members(element: Element, kind: str, participants: Mapping[str, object]) -> tuple[tuple[str, ...], str]:
    if kind != "multi":
        (pair,) = element.named("participants")
        first, second = (pair.known(name, "participant", participants) for name in ("first", "second"))
        return (first, second), second
    children = element.named("participant")
    names = tuple(child.known("name", "participant", participants) for child in children)
    controllers = [name for name, child in zip(names, children, strict=True) if child.boolean("control")]
    if len(controllers) != 1:
        controls = ", ".join(controllers) or "none"
        element.fail('one participant with control="true"', controls, "choose the controller")
    return names, controllers[0]


def _exchange(element: Element, case: Configuration, members: tuple[str, ...], substeps: bool) -> Exchange:
    data, mesh = _data_of(element, case.meshes), element.text("mesh")
    source, target = (element.known(name, "participant of this coupling scheme", members) for name in ("from", "to"))
    initialize, substeps = element.boolean("initialize"), element.boolean("substeps", substeps)
    return Exchange(data, mesh, source, target, initialize, substeps, element.line)


def _measure(element: Element, meshes: Mapping[str, Mesh]) -> ConvergenceMeasure:
    limits = [element.number(name) for name in ("abs-limit", "rel-limit", "limit") if name in element.attributes]
    kind = element.tag.removesuffix(_MEASURE)
    return ConvergenceMeasure(kind, _data_of(element, meshes), element.text("mesh"), limits[0])
