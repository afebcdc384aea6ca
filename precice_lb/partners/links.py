"""What a configuration says about partner ranks: one link per received mesh, and the meshes that it joins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from precice_lb.case.config import Configuration, Exchange, MeshMapping, ReceivedMesh
from precice_lb.case.elements import Element
from precice_lb.exceptions import ConfigurationError, DataError
from precice_lb.partners.meshes import Floats, Meshes, PartitionedMesh, check_boxes, scaled_boxes, united

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
    provider_asks : bool
        Whether ranks of the provider ask those of the receiver for connections: in preCICE 3.4 the ``acceptor`` does.
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
    provider_asks: bool = True

    @property
    def locals(self) -> tuple[str, ...]:
        """The receiver's own meshes that mappings tie to it."""
        return tuple(mapping.local for mapping in self.mappings if mapping.local is not None)

    @property
    def just_in_time(self) -> bool:
        """Whether any mapping is just-in-time."""
        return len(self.locals) < len(self.mappings)

    @property
    def title(self) -> str:
        """The mesh with its provider and receiver, for people."""
        return f"{self.mesh}: {self.provider} to {self.receiver}"


def links_of(configuration: Configuration) -> tuple[Link, ...]:
    """List the received meshes of all participants, in the order of the file, with what decides about partners."""
    links = tuple(
        _link(configuration, participant.name, received)
        for participant in configuration.participants.values()
        for received in participant.receives
    )
    if not links:
        raise ConfigurationError(
            f"{configuration.path}: expected a participant that receives a mesh, found none; nobody has partners here"
        )
    return links


def _link(configuration: Configuration, receiver: str, received: ReceivedMesh) -> Link:
    m2n = next((m for m in configuration.m2ns if {m.acceptor, m.connector} == {receiver, received.provider}), None)
    if m2n is None:
        raise ConfigurationError(
            f'{configuration.path}, line {received.line}: expected an <m2n:…> between "{received.provider}" and '
            f'"{receiver}" for mesh "{received.name}", found none; add one'
        )
    mappings = tuple(
        _mapping(mapping, mapping.target if mapping.source == received.name else mapping.source)
        for mapping in configuration.participants[receiver].mappings
        if received.name in (mapping.source, mapping.target)
    )
    dimensions = configuration.meshes[received.name].dimensions
    exchanges = tuple(
        (exchange, dimensions if configuration.data[exchange.data].is_vector else 1)
        for scheme in configuration.coupling_schemes
        for exchange in scheme.exchanges
        if exchange.mesh == received.name and {exchange.source, exchange.target} == {receiver, received.provider}
    )
    return Link(
        mesh=received.name,
        provider=received.provider,
        receiver=receiver,
        dimensions=dimensions,
        safety_factor=received.safety_factor,
        filtered=received.geometric_filter != "no-filter" and not any(mapping.is_kernel for mapping in mappings),
        api_access=received.api_access,
        two_level=m2n.use_two_level_initialization,
        gathered=m2n.element.boolean("enforce-gather-scatter"),
        mappings=mappings,
        exchanges=exchanges,
        provider_asks=m2n.acceptor == received.provider,
    )


def _mapping(mapping: MeshMapping, local: str | None) -> LinkMapping:
    if mapping.kind not in _KERNELS:
        return LinkMapping(mapping.kind, local)
    element = mapping.element
    (function,) = element.named("basis-function:")
    # The cluster size may stand at the mapping or at an executor.
    sizes = [
        place.integer("vertices-per-cluster", least=1)
        for place in (element, *element.children)
        if "vertices-per-cluster" in place.attributes
    ]
    return LinkMapping(
        mapping.kind, local, _support_radius(function), next(iter(sizes), 100 if mapping.kind == "rbf" else 50)
    )


def _support_radius(function: Element) -> float:
    kind = function.kind
    if kind in _GLOBAL_FUNCTIONS:
        return math.inf
    if "shape-parameter" in function.attributes:
        return _GAUSSIAN_REACH / function.positive("shape-parameter")
    # preCICE keeps the inverse.
    reach = _GAUSSIAN_REACH if kind == "gaussian" else 1.0
    return reach / (reach / function.positive("support-radius"))


def check_meshes(links: tuple[Link, ...], meshes: Meshes, regions: Mapping[str, Floats]) -> dict[str, int]:
    """Check that the meshes are those of the case, and count each participant's ranks."""
    ranks: dict[str, int] = {}
    sizes = [(mesh.name, mesh.participant, mesh.ranks) for mesh in meshes.values()]
    sizes += [(link.mesh, link.receiver, len(regions[link.mesh])) for link in links if link.mesh in regions]
    for name, participant, count in sizes:
        if ranks.setdefault(participant, count) != count:
            raise DataError(
                f"expected all meshes of {participant} on the same ranks, found {ranks[participant]} and {count} (mesh "
                f'"{name}"); give the files of all ranks of one run'
            )
    for link in links:
        for name in (link.mesh, *link.locals):
            _mesh_of(link, meshes, name, link.provider if name == link.mesh else link.receiver)
    return ranks


def receiver_boxes(link: Link, local: Meshes, region: Floats | None = None) -> Floats:
    """Boxes of the receiver's ranks, shape (ranks, dimensions, 2), that are compared with those of the provider's.

    The union over the mappings of the local mesh's box, enlarged by the safety factor times its own longest edge, and
    of the access region, enlarged likewise only where there is a just-in-time mapping; NaN for an empty rank.
    preCICE 3.4, ``ReceivedPartition::prepareBoundingBox``.
    """
    meshes = (_mesh_of(link, local, name, link.receiver) for name in link.locals)
    parts = [scaled_boxes(mesh.boxes, link.safety_factor) for mesh in meshes]
    if link.api_access and region is not None:
        checked = check_boxes(region, f"access regions of {link.title}")
        parts.append(scaled_boxes(checked, link.safety_factor) if link.just_in_time else checked)
    if not parts:
        raise DataError(
            f"{link.title}: expected access regions, as no mapping ties the mesh to one of {link.receiver}'s own, "
            "found none; record the run, which keeps them, or give them"
        )
    return united(parts)


def _mesh_of(link: Link, meshes: Meshes, name: str, participant: str) -> PartitionedMesh:
    """Return one of the two meshes of a link, which must be there and of the case."""
    mesh = meshes.get(name)
    if mesh is None or mesh.participant != participant:
        raise DataError(
            f'{link.title}: expected mesh "{name}" of {participant}, found {", ".join(meshes) or "no mesh"}; give the '
            "meshes of all participants, of this case"
        )
    if mesh.dimensions != link.dimensions:
        raise DataError(
            f'{link.title}: expected mesh "{name}" in {link.dimensions} dimensions, found {mesh.dimensions} in '
            f"{mesh.source or 'the data'}; give meshes of this case"
        )
    return mesh
