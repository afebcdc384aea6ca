"""Which data a first guess is made for: their way from the solver that writes to the one that reads."""

from __future__ import annotations

from dataclasses import dataclass

from precice_lb.precice_xml.records import Configuration, CouplingScheme, Exchange, Mapping, Participant
from precice_lb.store.schema import GUESS_PREFIX as PREFIX
from precice_lb.store.schema import SHIFTED_PREFIX as SHIFTED

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
    mappings : tuple of Mapping
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
    mappings: tuple[Mapping, ...]
    shifted: bool


def is_patched(configuration: Configuration) -> bool:
    """Whether a configuration has fields that carry predictions."""
    return any(name.startswith(PREFIX) for name in configuration.data)


def routes(configuration: Configuration) -> tuple[Route, ...]:
    """Find the ways of all fields in implicit coupling schemes, in the file's order; predictions are none of them.

    A field that a solver writes on several meshes, or reads on several, has as many routes.
    """
    found = []
    for scheme in configuration.coupling_schemes:
        if not scheme.is_implicit:
            continue
        for exchange in scheme.exchanges:
            if is_added(exchange.data):
                continue
            shifted = not scheme.is_serial or exchange.source == scheme.participants[1]
            for write_mesh, written in _written(configuration.participants[exchange.source], exchange):
                for read_mesh, read in _read(configuration.participants[exchange.target], exchange):
                    found.append(Route(scheme, exchange, write_mesh, read_mesh, (*written, *read), shifted))
    return tuple(found)


def carriers(configuration: Configuration) -> tuple[Route, ...]:
    """Find the routes that a prediction goes along with: all that are shifted, and the first other one of a scheme."""
    found: list[Route] = []
    for route in routes(configuration):
        if route.shifted or not any(other.scheme is route.scheme and not other.shifted for other in found):
            found.append(route)
    return tuple(found)


def _written(source: Participant, exchange: Exchange) -> list[tuple[str, tuple[Mapping, ...]]]:
    """Find the meshes that a participant writes data on, with the mapping to the one that is exchanged."""
    mapped = [(m.source, m) for m in source.mappings if m.direction == "write" and m.target == exchange.mesh]
    return [(mesh, way) for mesh, way in _all(exchange, mapped) if (mesh, exchange.data) in source.writes]


def _read(target: Participant, exchange: Exchange) -> list[tuple[str, tuple[Mapping, ...]]]:
    """Find the meshes that a participant reads data on, with the mapping from the one that is exchanged."""
    mapped = [(m.target, m) for m in target.mappings if m.direction == "read" and m.source == exchange.mesh]
    return [(mesh, way) for mesh, way in _all(exchange, mapped) if (mesh, exchange.data) in target.reads]


def _all(exchange: Exchange, mapped: list[tuple[str | None, Mapping]]) -> list[tuple[str, tuple[Mapping, ...]]]:
    """Join the mesh that is exchanged and those mapped to or from it; just-in-time mappings have none."""
    return [(exchange.mesh, ()), *((mesh, (mapping,)) for mesh, mapping in mapped if mesh is not None)]
