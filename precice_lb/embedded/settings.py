"""What a configuration says beyond the records of `precice_lb.precice_xml`, with preCICE's defaults.

Values are those that `precice_lb.embedded.allowed` has let pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precice_lb.precice_xml.elements import Reader
from precice_lb.precice_xml.records import Configuration, CouplingScheme, Element, Mapping, Participant

__all__ = [
    "AccelerationSettings",
    "MeasureSettings",
    "acceleration_settings",
    "kernel_of",
    "mapped_data",
    "measure_settings",
    "schemes_of",
    "watch_elements",
    "watched_place",
]


@dataclass(frozen=True)
class MeasureSettings:
    """One convergence measure: absolute, or relative to the norm of the values."""

    relative: bool
    mesh: str
    data: str
    limit: float

    @property
    def header(self) -> str:
        """Column of ``precice-<P>-convergence.log``."""
        return f"Res{'Rel' if self.relative else 'Abs'}({self.mesh}:{self.data})"


@dataclass(frozen=True)
class AccelerationSettings:
    """One ``<acceleration:…>``; ``data`` are (mesh, data, scaling, line), the primary data."""

    kind: str
    data: tuple[tuple[str, str, float, int], ...]
    relaxation: float
    max_columns: int
    windows_reused: int
    filter: str
    filter_limit: float
    preconditioner: str


def schemes_of(configuration: Configuration, participant: str) -> list[CouplingScheme]:
    """List the coupling schemes that a participant takes part in, in the order of the file."""
    return [scheme for scheme in configuration.coupling_schemes if participant in scheme.participants]


def _scheme_element(configuration: Configuration, scheme: CouplingScheme) -> Element:
    elements = [child for child in configuration.root.children if child.tag.startswith("coupling-scheme:")]
    return elements[configuration.coupling_schemes.index(scheme)]


def measure_settings(configuration: Configuration, scheme: CouplingScheme) -> tuple[MeasureSettings, ...]:
    """Read the convergence measures of a scheme, in the order of the file."""
    reader = Reader(configuration.path)
    return tuple(
        MeasureSettings(
            child.tag.startswith("relative"), *_data(configuration, child, "data"), reader.number(child, "limit")
        )
        for child in _scheme_element(configuration, scheme).children
        if child.tag.endswith("-convergence-measure")
    )


def acceleration_settings(configuration: Configuration, scheme: CouplingScheme) -> AccelerationSettings | None:
    """Read the acceleration of a scheme, None if it has none."""
    if scheme.acceleration is None:
        return None
    reader = Reader(configuration.path)
    inside = _scheme_element(configuration, scheme).children
    element = next(child for child in inside if child.tag.startswith("acceleration:"))
    kind = scheme.acceleration
    parts = {child.tag: child for child in element.children}

    def value(tag: str, default: str, name: str = "value") -> str:
        return parts[tag].attributes.get(name, default) if tag in parts else default

    relaxation = parts.get("relaxation") or parts.get("initial-relaxation")
    return AccelerationSettings(
        kind=kind,
        data=tuple(
            (*_data(configuration, child, "name"), reader.number(child, "scaling", "1"), child.line)
            for child in element.children
            if child.tag == "data"
        ),
        relaxation={"aitken": 0.5}.get(kind, 0.1) if relaxation is None else reader.number(relaxation, "value"),
        max_columns=int(value("max-used-iterations", "100")),
        windows_reused=int(value("time-windows-reused", "10")),
        filter=value("filter", "QR3", "type"),
        filter_limit=reader.number(parts["filter"], "limit", "1e-16") if "filter" in parts else 1e-2,
        preconditioner=value("preconditioner", "residual-sum", "type"),
    )


def kernel_of(configuration: Configuration, mapping: Mapping) -> tuple[str, float]:
    """Read the function of an RBF mapping and its support radius, 0 for none."""
    wanted = (f"mapping:{mapping.kind}", mapping.line, mapping.source, mapping.target)
    (function,) = next(
        child.children
        for owner in configuration.root.children
        for child in owner.children
        if (child.tag, child.line, child.attributes.get("from"), child.attributes.get("to")) == wanted
    )
    return function.tag.partition(":")[2], Reader(configuration.path).number(function, "support-radius", "0")


def watch_elements(configuration: Configuration, participant: str) -> list[Element]:
    """List the ``<watch-point>`` elements of a participant."""
    return [
        child
        for owner in configuration.root.children
        if owner.tag == "participant" and owner.attributes.get("name") == participant
        for child in owner.children
        if child.tag == "watch-point"
    ]


def watched_place(configuration: Configuration, element: Element) -> list[float]:
    """Read where a watch-point is; refused unless it has as many coordinates as its mesh has dimensions."""
    reader = Reader(configuration.path)
    text = reader.text(element, "coordinate")
    dimensions = configuration.meshes[reader.known(element, "mesh", "mesh", configuration.meshes)].dimensions
    try:
        place = [float(part) for part in text.split(";")]
    except ValueError:
        place = []
    if len(place) != dimensions or not np.isfinite(place).all():
        reader.fail(element, f'{dimensions} numbers as in "0; 1" as "coordinate"', f'"{text}"', "correct it")
    return place


def mapped_data(configuration: Configuration, me: Participant, mapping: Mapping) -> list[str]:
    """List the data that a mapping carries: what the solver reads or writes there and the other mesh has as well."""
    pairs, here, there = me.writes, mapping.source, mapping.target
    if mapping.direction == "read":
        pairs, here, there = me.reads, mapping.target, mapping.source
    return [data for mesh, data in pairs if mesh == here and data in configuration.meshes[str(there)].data]


def _data(configuration: Configuration, element: Element, name: str) -> tuple[str, str]:
    reader = Reader(configuration.path)
    mesh = reader.known(element, "mesh", "mesh", configuration.meshes)
    return mesh, reader.known(element, name, f'data of mesh "{mesh}"', configuration.meshes[mesh].data)
