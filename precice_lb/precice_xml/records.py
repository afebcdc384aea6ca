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

    Attributes
    ----------
    tag : str
        With its prefix, as in the file.
    line : int
        Where it stands in the file, from 1.
    attributes : dict of str to str
    children : tuple of Element
    span : (int, int)
        Positions of its start tag in the file's text, from ``<`` to just behind ``>``.
    """

    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Element, ...] = ()
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Data:
    """One ``<data:scalar>`` or ``<data:vector>``.

    Attributes
    ----------
    name : str
    is_vector : bool
    waveform_degree : int
    line : int
        Where it stands in the file, from 1.
    """

    name: str
    is_vector: bool
    waveform_degree: int
    line: int


@dataclass(frozen=True)
class Mesh:
    """One ``<mesh>``.

    Attributes
    ----------
    name : str
    dimensions : int
        2 or 3.
    data : tuple of str
        Names of the data it uses.
    line : int
        Where it stands in the file, from 1.
    """

    name: str
    dimensions: int
    data: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class ReceivedMesh:
    """One ``<receive-mesh>`` of a participant.

    Attributes
    ----------
    name, provider : str
        Mesh and the participant that provides it.
    safety_factor : float
        Share of the longest edge of the mesh's box.
    geometric_filter : str
        ``on-secondary-ranks``, ``on-primary-rank`` or ``no-filter``.
    api_access : bool
        Direct access to the mesh.
    line : int
        Where it stands in the file, from 1.
    """

    name: str
    provider: str
    safety_factor: float
    geometric_filter: str
    api_access: bool
    line: int


@dataclass(frozen=True)
class Mapping:
    """One ``<mapping:…>`` of a participant.

    Attributes
    ----------
    kind : str
        ``nearest-neighbor``, ``rbf``, …
    direction : str
        ``read`` or ``write``.
    constraint : str
        ``consistent``, ``conservative``, …
    source, target : str or None
        Meshes: ``from`` and ``to``; one is None for just-in-time mappings.
    line : int
        Where it stands in the file, from 1.
    """

    kind: str
    direction: str
    constraint: str
    source: str | None
    target: str | None
    line: int


@dataclass(frozen=True)
class Participant:
    """One ``<participant>``: its meshes, data and mappings.

    Attributes
    ----------
    name : str
    provides : tuple of str
        Meshes.
    receives : tuple of ReceivedMesh
    reads, writes : tuple of (str, str)
        Mesh and data.
    mappings : tuple of Mapping
    line : int
        Where it stands in the file, from 1.
    """

    name: str
    provides: tuple[str, ...]
    receives: tuple[ReceivedMesh, ...]
    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    mappings: tuple[Mapping, ...]
    line: int


@dataclass(frozen=True)
class M2N:
    """One ``<m2n:…>``.

    Attributes
    ----------
    kind : str
        ``sockets``, ``mpi``, …
    acceptor, connector : str
        Participants.
    exchange_directory : str
        As written, relative to the working directory of the solver.
    use_two_level_initialization : bool
    line : int
        Where it stands in the file, from 1.
    """

    kind: str
    acceptor: str
    connector: str
    exchange_directory: str
    use_two_level_initialization: bool
    line: int


@dataclass(frozen=True)
class Exchange:
    """One ``<exchange>`` of a coupling scheme.

    Attributes
    ----------
    data, mesh : str
        Names.
    source, target : str
        Participants: ``from`` and ``to``.
    initialize, substeps : bool
    line : int
        Where it stands in the file, from 1.
    """

    data: str
    mesh: str
    source: str
    target: str
    initialize: bool
    substeps: bool
    line: int


@dataclass(frozen=True)
class CouplingScheme:
    """One ``<coupling-scheme:…>``.

    Attributes
    ----------
    kind : str
        ``serial-explicit``, ``parallel-explicit``, ``serial-implicit``, ``parallel-implicit`` or ``multi``.
    participants : tuple of str
        First and second; multi: as listed.
    controller : str or None
        Of a multi scheme.
    exchanges : tuple of Exchange
        In the file's order.
    time_window_size : float
        Simulated seconds; NaN where the first participant tells it.
    window_size_from_first : bool
        ``method="first-participant"``.
    max_time : float or None
        Simulated seconds.
    max_time_windows : int or None
    max_iterations : int or None
        None for explicit schemes and where the file sets no limit.
    acceleration : str or None
        Its kind.
    line : int
        Where it stands in the file, from 1.
    has_convergence_measure : bool
        Without one an implicit scheme does exactly ``max_iterations`` in every window.
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
