"""What ``precice-config.xml`` says, as immutable records with the line each element stands in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "M2N",
    "Configuration",
    "CouplingScheme",
    "Data",
    "Element",
    "Exchange",
    "Mapping",
    "Mesh",
    "Participant",
    "ReceivedMesh",
]


@dataclass(frozen=True)
class Element:
    """One XML element as it stands in the file: the raw material for checks that name tag and line.

    ``span`` holds the positions of its start tag in the file's text, from ``<`` to just behind ``>``.
    """

    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Element, ...] = ()
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Data:
    """One ``<data:scalar>`` or ``<data:vector>``."""

    name: str
    is_vector: bool
    waveform_degree: int
    line: int


@dataclass(frozen=True)
class Mesh:
    """One ``<mesh>`` with the names of the data it uses."""

    name: str
    dimensions: int
    data: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class ReceivedMesh:
    """One ``<receive-mesh>`` of a participant."""

    name: str
    provider: str
    safety_factor: float
    geometric_filter: str
    api_access: bool
    line: int


@dataclass(frozen=True)
class Mapping:
    """One ``<mapping:…>`` of a participant; ``source`` or ``target`` is None for just-in-time mappings."""

    kind: str
    direction: str
    constraint: str
    source: str | None
    target: str | None
    line: int


@dataclass(frozen=True)
class Participant:
    """One ``<participant>``: its meshes, data and mappings. ``reads`` and ``writes`` are (mesh, data) pairs."""

    name: str
    provides: tuple[str, ...]
    receives: tuple[ReceivedMesh, ...]
    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    mappings: tuple[Mapping, ...]
    line: int


@dataclass(frozen=True)
class M2N:
    """One ``<m2n:…>``; ``exchange_directory`` as written, relative to the working directory of the solver."""

    kind: str
    acceptor: str
    connector: str
    exchange_directory: str
    use_two_level_initialization: bool
    line: int


@dataclass(frozen=True)
class Exchange:
    """One ``<exchange>`` of a coupling scheme."""

    data: str
    mesh: str
    source: str
    target: str
    initialize: bool
    substeps: bool
    line: int


@dataclass(frozen=True)
class CouplingScheme:
    """One ``<coupling-scheme:…>``; ``participants`` in the order first, second (multi: as listed).

    ``kind`` is one of ``serial-explicit``, ``parallel-explicit``, ``serial-implicit``, ``parallel-implicit``,
    ``multi``. ``window_size_from_first`` is True for ``method="first-participant"``; ``time_window_size`` is NaN then.
    ``max_iterations`` is None for explicit schemes and where the file sets no limit. Without a convergence measure an
    implicit scheme does exactly ``max_iterations`` in every window.
    """

    kind: str
    participants: tuple[str, ...]
    controller: str | None
    exchanges: tuple[Exchange, ...]
    time_window_size: float
    window_size_from_first: bool
    max_time: float | None
    max_time_windows: int | None
    max_iterations: int | None
    acceleration: str | None
    line: int
    has_convergence_measure: bool = False

    @property
    def is_implicit(self) -> bool:
        """Whether the scheme iterates within a time window."""
        return self.kind.endswith("implicit") or self.kind == "multi"

    @property
    def is_serial(self) -> bool:
        """Whether the two participants run one after the other."""
        return self.kind.startswith("serial")


@dataclass(frozen=True)
class Configuration:
    """A whole ``precice-config.xml``. Mappings from names keep the order of the file."""

    path: Path
    text: str
    data: dict[str, Data]
    meshes: dict[str, Mesh]
    participants: dict[str, Participant]
    m2ns: tuple[M2N, ...]
    coupling_schemes: tuple[CouplingScheme, ...]
    root: Element
