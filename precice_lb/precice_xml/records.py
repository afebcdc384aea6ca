"""What ``precice-config.xml`` says, as immutable records with the line each element stands in, from 1."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

# How preCICE names the kinds of convergence measures in its logs.
_ABBREVIATIONS = {
    "absolute": "Abs",
    "relative": "Rel",
    "residual-relative": "Drop",
    "absolute-or-relative": "AbsOrRel",
}


@dataclass(frozen=True)
class Element:
    """One XML element as it stands in the file: the raw material for checks that name tag and line."""

    # With its prefix, as in the file.
    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Element, ...] = ()
    # Positions of its start tag in the file's text, from ``<`` to just behind ``>``.
    span: tuple[int, int] = (0, 0)
    # Just behind all of it.
    end: int = 0

    def has_tag(self, *tags: str) -> bool:
        """Whether it has one of these tags; ``m2n:`` stands for all that begin so."""
        return self.tag in tags or self.tag.startswith(tuple(tag for tag in tags if tag.endswith(":")))

    def named(self, *tags: str) -> list[Element]:
        """Children of these tags, as of `has_tag`."""
        return [child for child in self.children if child.has_tag(*tags)]


@dataclass(frozen=True)
class Data:
    """One ``<data:scalar>`` or ``<data:vector>``."""

    name: str
    is_vector: bool
    waveform_degree: int
    line: int


@dataclass(frozen=True)
class Mesh:
    """One ``<mesh>`` of 2 or 3 dimensions, with the names of the data it uses."""

    name: str
    dimensions: int
    data: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class ReceivedMesh:
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
class Mapping:
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
    line: int
    element: Element = field(compare=False)


@dataclass(frozen=True)
class Participant:
    """One ``<participant>``: its meshes, data and mappings."""

    name: str
    # Meshes.
    provides: tuple[str, ...]
    receives: tuple[ReceivedMesh, ...]
    # Mesh and data.
    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    mappings: tuple[Mapping, ...]
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
    line: int
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


@dataclass(frozen=True)
class ConvergenceMeasure:
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
    # First and second; multi: as listed, and which of them is the controller.
    participants: tuple[str, ...]
    controller: str | None
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
    def judge(self) -> str:
        """The participant that tells whether an iteration has converged."""
        return self.controller or self.participants[1]

    @property
    def is_serial(self) -> bool:
        """Whether the two participants run one after the other."""
        return self.kind.startswith("serial")


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
    participants : dict of str to Participant
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
    participants: dict[str, Participant]
    m2ns: tuple[M2N, ...]
    coupling_schemes: tuple[CouplingScheme, ...]
    root: Element

    @property
    def longest_window(self) -> float:
        """Simulated seconds of a time window, the longest where schemes differ; NaN where participants size them."""
        sizes = [scheme.time_window_size for scheme in self.coupling_schemes if not scheme.window_size_from_first]
        return max(sizes, default=math.nan)

    @property
    def windows(self) -> int | None:
        """Time windows, the longest where schemes differ, until the first scheme ends; None where there is no end."""
        longest, ends = self.longest_window, []
        for scheme in self.coupling_schemes:
            share = 1.0 if scheme.window_size_from_first else scheme.time_window_size / longest
            ends += [] if scheme.max_time_windows is None else [scheme.max_time_windows * share]
            ends += [] if scheme.max_time is None or scheme.window_size_from_first else [scheme.max_time / longest]
        first = min(filter(math.isfinite, ends), default=None)
        # A window is not left out for the rounding of its end.
        return None if first is None else max(math.ceil(first * (1.0 - 1e-9)), 1)
