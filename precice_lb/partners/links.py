"""What a configuration says about partner ranks: one link per received mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass

from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml.elements import is_true
from precice_lb.precice_xml.records import Configuration, Element, Exchange, ReceivedMesh
from precice_lb.precice_xml.records import Mapping as MeshMapping

__all__ = ["Link", "LinkMapping", "links_of"]

_KERNELS = ("rbf", "rbf-global-direct", "rbf-global-iterative", "rbf-pum-direct")
_PARTITIONED = ("rbf", "rbf-pum-direct")
# preCICE 3.4, mapping/impl/BasisFunctions.hpp: Gaussian::cutoffThreshold.
_GAUSSIAN_REACH = math.sqrt(-math.log(1e-9))
_GLOBAL_FUNCTIONS = ("multiquadrics", "inverse-multiquadrics", "thin-plate-splines", "volume-splines")


@dataclass(frozen=True)
class LinkMapping:
    """One mapping from or to a received mesh.

    Attributes
    ----------
    kind : str
        As in the configuration, without prefix: ``nearest-neighbor``, ``rbf-global-direct``, …
    local : str or None
        The receiver's own mesh; None for a just-in-time mapping.
    support_radius : float
        Support radius of the basis function; infinite without compact support, NaN for other mappings.
    vertices_per_cluster : int
        Of a partition-of-unity mapping.
    """

    kind: str
    local: str | None
    support_radius: float = math.nan
    vertices_per_cluster: int = 50

    @property
    def is_kernel(self) -> bool:
        """Whether it is a radial-basis-function mapping, for which preCICE switches the geometric filter off."""
        return self.kind in _KERNELS

    @property
    def is_partitioned(self) -> bool:
        """Whether it is a partition-of-unity mapping."""
        return self.kind in _PARTITIONED


@dataclass(frozen=True)
class Link:
    """One mesh that one participant receives from another.

    Attributes
    ----------
    mesh, provider, receiver : str
        The mesh, who provides and who receives it.
    dimensions : int
        Space dimensions.
    safety_factor : float
        Of ``<receive-mesh>``.
    filtered : bool
        Whether vertices outside the receiver's box are dropped before the mappings choose theirs.
    api_access : bool
        Whether the receiver may access the mesh directly, within an access region.
    two_level : bool
        Whether the m2n asks for two-level initialisation.
    gathered : bool
        Whether the m2n sends all data through the primary ranks.
    mappings : tuple of LinkMapping
        Mappings from or to the mesh.
    exchanges : tuple of (Exchange, int)
        Data exchanged on the mesh, in either direction, with the values per vertex.
    """

    mesh: str
    provider: str
    receiver: str
    dimensions: int
    safety_factor: float
    filtered: bool
    api_access: bool
    two_level: bool
    gathered: bool
    mappings: tuple[LinkMapping, ...]
    exchanges: tuple[tuple[Exchange, int], ...]

    @property
    def just_in_time(self) -> bool:
        """Whether any mapping is just-in-time."""
        return any(mapping.local is None for mapping in self.mappings)

    @property
    def title(self) -> str:
        """The mesh with its provider and receiver, for people."""
        return f"{self.mesh}: {self.provider} to {self.receiver}"


def links_of(configuration: Configuration) -> tuple[Link, ...]:
    """List the received meshes of all participants, in the order of the file, with what decides about partners."""
    links = []
    for participant in configuration.participants.values():
        for received in participant.receives:
            links.append(_link(configuration, participant.name, received))
    if not links:
        raise ConfigurationError(
            f"{configuration.path}: expected a participant that receives a mesh, found none; nobody has partners here"
        )
    return tuple(links)


def _link(configuration: Configuration, receiver: str, received: ReceivedMesh) -> Link:
    m2n = next((m for m in configuration.m2ns if {m.acceptor, m.connector} == {receiver, received.provider}), None)
    where = f"{configuration.path}, line {received.line}"
    if m2n is None:
        raise ConfigurationError(
            f'{where}: expected an <m2n:…> between "{received.provider}" and "{receiver}" for mesh "{received.name}", '
            "found none; add one"
        )
    element = next(e for e in configuration.root.children if e.line == m2n.line and e.tag == f"m2n:{m2n.kind}")
    mappings = tuple(_mappings(configuration, receiver, received))
    exchanges = tuple(
        (each, configuration.meshes[received.name].dimensions if configuration.data[each.data].is_vector else 1)
        for scheme in configuration.coupling_schemes
        for each in scheme.exchanges
        if each.mesh == received.name and {each.source, each.target} == {receiver, received.provider}
    )
    return Link(
        mesh=received.name,
        provider=received.provider,
        receiver=receiver,
        dimensions=configuration.meshes[received.name].dimensions,
        safety_factor=received.safety_factor,
        filtered=received.geometric_filter != "no-filter" and not any(mapping.is_kernel for mapping in mappings),
        api_access=received.api_access,
        two_level=m2n.use_two_level_initialization,
        gathered=is_true(element.attributes.get("enforce-gather-scatter", "")),
        mappings=mappings,
        exchanges=exchanges,
    )


def _mappings(configuration: Configuration, receiver: str, received: ReceivedMesh) -> list[LinkMapping]:
    participant = configuration.participants[receiver]
    (owner,) = (
        e for e in configuration.root.children if e.tag == "participant" and e.attributes.get("name") == receiver
    )
    elements = [e for e in owner.children if e.tag.startswith("mapping:")]
    return [
        _mapping(configuration, mapping, element, mapping.target if mapping.source == received.name else mapping.source)
        for mapping, element in zip(participant.mappings, elements, strict=True)
        if received.name in (mapping.source, mapping.target)
    ]


def _mapping(configuration: Configuration, mapping: MeshMapping, element: Element, local: str | None) -> LinkMapping:
    if mapping.kind not in _KERNELS:
        return LinkMapping(mapping.kind, local)
    where = f"{configuration.path}, line {mapping.line}"
    function = next((e for e in element.children if e.tag.startswith("basis-function:")), None)
    if function is None:
        raise ConfigurationError(f"{where}: expected a <basis-function:…> in the mapping, found none; add one")
    kind = function.tag.partition(":")[2]
    # The cluster size may stand at the mapping or at an executor.
    sizes = [
        e.attributes["vertices-per-cluster"]
        for e in (element, *element.children)
        if "vertices-per-cluster" in e.attributes
    ]
    try:
        size = int(sizes[0]) if sizes else (100 if mapping.kind == "rbf" else 50)
        radius = _support_radius(kind, function)
    except (KeyError, ValueError, ZeroDivisionError):
        raise ConfigurationError(
            f"{where}: expected the parameters of {function.tag} as numbers above 0, found "
            f"{dict(element.attributes) | dict(function.attributes)}; correct them"
        ) from None
    return LinkMapping(mapping.kind, local, radius, size)


def _support_radius(kind: str, function: Element) -> float:
    if kind in _GLOBAL_FUNCTIONS:
        return math.inf
    if kind == "gaussian":
        if "shape-parameter" in function.attributes:
            return _GAUSSIAN_REACH / float(function.attributes["shape-parameter"])
        return _GAUSSIAN_REACH / (_GAUSSIAN_REACH / float(function.attributes["support-radius"]))
    # preCICE keeps the inverse.
    return 1.0 / (1.0 / float(function.attributes["support-radius"]))
