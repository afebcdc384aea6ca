"""What the coupling schemes and mappings of a configuration say beyond names: limits, measures, acceleration, kernels.

The defaults of preCICE's ``cplscheme/config/CouplingSchemeConfiguration.cpp``,
``acceleration/config/AccelerationConfiguration.cpp`` and ``mapping/config/MappingConfiguration.cpp``.
"""

from __future__ import annotations

from dataclasses import dataclass

from precice_lb.embedded.clock import TOLERANCE
from precice_lb.precice_xml import Configuration, CouplingScheme, Element, Mapping
from precice_lb.precice_xml.fields import Reader

__all__ = [
    "KERNELS",
    "AccelerationSettings",
    "KernelSettings",
    "MeasureSettings",
    "acceleration_settings",
    "element_of",
    "kernel_settings",
    "mapping_element",
    "measure_settings",
    "min_iterations",
]

_MEASURE_LIMITS = {
    "absolute-convergence-measure": ("limit",),
    "relative-convergence-measure": ("limit",),
    "residual-relative-convergence-measure": ("limit",),
    "absolute-or-relative-convergence-measure": ("abs-limit", "rel-limit"),
}
_FILTERS = ("QR1", "QR1-absolute", "QR2", "QR3")
_PRECONDITIONERS = ("constant", "value", "residual", "residual-sum")
_RADIUS_KERNELS = tuple(f"compact-polynomial-c{order}" for order in (0, 2, 4, 6, 8))
#: Kernels without a parameter, and those with a support radius, that this backend knows.
KERNELS = ("thin-plate-splines", "volume-splines", *_RADIUS_KERNELS)
_DEAD_AXES = ("x-dead", "y-dead", "z-dead")


@dataclass(frozen=True)
class MeasureSettings:
    """One convergence measure: its tag without ``-convergence-measure``, its data, its one or two limits."""

    kind: str
    mesh: str
    data: str
    limits: tuple[float, ...]
    suffices: bool
    strict: bool


@dataclass(frozen=True)
class AccelerationSettings:
    """One ``<acceleration:…>``; ``data`` are (mesh, data, scaling), the primary data."""

    kind: str
    data: tuple[tuple[str, str, float], ...]
    relaxation: float
    enforce_relaxation: bool
    max_columns: int
    windows_reused: int
    filter: str
    filter_limit: float
    preconditioner: str
    freeze_after: int
    update_on_threshold: bool
    reduced_time_grid: bool
    line: int


@dataclass(frozen=True)
class KernelSettings:
    """How a radial-basis-function mapping interpolates; ``cluster`` is the size of preCICE's clusters, None for all."""

    name: str
    support_radius: float
    polynomial: str
    dead_axes: tuple[bool, bool, bool]
    cluster: int | None


def element_of(configuration: Configuration, scheme: CouplingScheme) -> Element:
    """Return the element that a coupling scheme was read from."""
    elements = [e for e in configuration.root.children if e.tag.startswith("coupling-scheme:")]
    return elements[configuration.coupling_schemes.index(scheme)]


def mapping_element(configuration: Configuration, mapping: Mapping) -> Element:
    """Return the element that a mapping was read from."""
    for participant in configuration.participants.values():
        for element, own in zip(_mappings(configuration, participant.name), participant.mappings, strict=True):
            if own is mapping:
                return element
    raise ValueError("not a mapping of this configuration")


def _mappings(configuration: Configuration, participant: str) -> list[Element]:
    return [
        child
        for owner in configuration.root.children
        if owner.tag == "participant" and owner.attributes.get("name") == participant
        for child in owner.children
        if child.tag.startswith("mapping:")
    ]


def min_iterations(configuration: Configuration, scheme: CouplingScheme) -> int:
    """Return the least number of coupling iterations in a time window."""
    reader, element = Reader(configuration.path), element_of(configuration, scheme)
    for child in element.children:
        if child.tag == "min-iterations":
            number = reader.integer(child, "value", least=1)
            if scheme.max_iterations is not None and number > scheme.max_iterations:
                reader.fail(child, f"at most <max-iterations> ({scheme.max_iterations})", f"{number}", "correct one")
            return number
    return 1


def measure_settings(configuration: Configuration, scheme: CouplingScheme) -> tuple[MeasureSettings, ...]:
    """Read the convergence measures of a scheme, in the order of the file."""
    reader = Reader(configuration.path)
    result = []
    for child in element_of(configuration, scheme).children:
        if child.tag not in _MEASURE_LIMITS:
            continue
        mesh, data = _data(reader, configuration, child, "data")
        limits = tuple(reader.number(child, name) for name in _MEASURE_LIMITS[child.tag])
        for name, limit in zip(_MEASURE_LIMITS[child.tag], limits, strict=True):
            absolute = name == "abs-limit" or child.tag == "absolute-convergence-measure"
            if not limit > TOLERANCE or (not absolute and limit - 1.0 > TOLERANCE):
                reader.fail(
                    child, f'"{name}" greater than 0{"" if absolute else " and at most 1"}', f"{limit:g}", "correct it"
                )
        result.append(
            MeasureSettings(
                kind=child.tag.removesuffix("-convergence-measure"),
                mesh=mesh,
                data=data,
                limits=limits,
                suffices=reader.boolean(child, "suffices"),
                strict=reader.boolean(child, "strict"),
            )
        )
    return tuple(result)


def acceleration_settings(configuration: Configuration, scheme: CouplingScheme) -> AccelerationSettings | None:
    """Read the acceleration of a scheme, None if it has none."""
    reader = Reader(configuration.path)
    found = [c for c in element_of(configuration, scheme).children if c.tag.startswith("acceleration:")]
    if not found:
        return None
    element = found[0]
    if len(found) > 1:
        reader.fail(found[1], "one acceleration in a coupling scheme", "a second", "remove one")
    inside = {child.tag: child for child in element.children}
    kind = element.tag.partition(":")[2]
    data = []
    for part in element.children:
        if part.tag == "data":
            data.append((*_data(reader, configuration, part, "name"), reader.number(part, "scaling", "1")))
    if len({entry[:2] for entry in data}) < len(data):
        reader.fail(element, "every <data> once", "one twice", "remove the second")
    if kind != "constant" and not data:
        reader.fail(element, "at least one <data>", "none", "add the data that the acceleration looks at")
    relaxation_tag = "relaxation" if kind == "constant" else "initial-relaxation"
    relaxation = {"constant": 1.0, "aitken": 0.5}.get(kind, 0.1)
    if kind == "constant" and relaxation_tag not in inside:
        reader.fail(element, "<relaxation>", "none", "add it")
    enforce = False
    if (child := inside.get(relaxation_tag)) is not None:
        relaxation = reader.number(child, "value")
        enforce = reader.boolean(child, "enforce")
        if not 0.0 < relaxation <= 1.0:
            reader.fail(child, 'a "value" greater than 0 and at most 1', f"{relaxation:g}", "correct it")

    def whole(tag: str, default: int, least: int) -> int:
        return default if tag not in inside else reader.integer(inside[tag], "value", least=least)

    filtering, conditioner = inside.get("filter"), inside.get("preconditioner")
    return AccelerationSettings(
        kind=kind,
        data=tuple(data),
        relaxation=relaxation,
        enforce_relaxation=enforce,
        max_columns=whole("max-used-iterations", 100, 1),
        windows_reused=whole("time-windows-reused", 10, 0),
        filter="QR3" if filtering is None else reader.choice(filtering, "type", _FILTERS, "QR3"),
        filter_limit=1e-2 if filtering is None else reader.number(filtering, "limit", "1e-16"),
        preconditioner="residual-sum" if conditioner is None else reader.choice(conditioner, "type", _PRECONDITIONERS),
        freeze_after=-1 if conditioner is None else reader.integer(conditioner, "freeze-after", "-1"),
        update_on_threshold=conditioner is None or reader.boolean(conditioner, "update-on-threshold", True),
        reduced_time_grid=reader.boolean(element, "reduced-time-grid", True),
        line=element.line,
    )


def kernel_settings(configuration: Configuration, element: Element) -> KernelSettings:
    """Read how a ``<mapping:rbf…>`` interpolates.

    Raises
    ------
    ConfigurationError
        If it has no or more than one basis function, or a value that preCICE refuses.
    """
    reader = Reader(configuration.path)
    functions = [child for child in element.children if child.tag.startswith("basis-function:")]
    if len(functions) != 1:
        reader.fail(element, "one <basis-function:…>", f"{len(functions)}", "give one")
    name = functions[0].tag.partition(":")[2]
    radius = 0.0
    if name in _RADIUS_KERNELS:
        radius = reader.number(functions[0], "support-radius")
        if not radius > TOLERANCE:
            reader.fail(functions[0], 'a positive "support-radius"', f"{radius:g}", "correct it")
    dead = tuple(reader.boolean(element, axis) for axis in _DEAD_AXES)
    dimensions = configuration.meshes[element.attributes["to"] or element.attributes["from"]].dimensions
    if all(dead[:dimensions]):
        reader.fail(element, "an axis that is not dead", "none", "remove x-dead, y-dead or z-dead")
    options = ("off", "separate") if element.tag == "mapping:rbf-pum-direct" else ("on", "off", "separate")
    polynomial = reader.choice(element, "polynomial", options, "separate")
    if polynomial == "on" and name in _RADIUS_KERNELS:
        reader.fail(element, 'polynomial="off" or "separate" with this basis function', '"on"', "correct it")
    cluster = None
    if element.tag != "mapping:rbf-global-direct":
        # preCICE's partition of unity does not look at them.
        dead = (False, False, False)
    if element.tag == "mapping:rbf":
        cluster = 100
    elif element.tag == "mapping:rbf-pum-direct":
        cluster = reader.integer(element, "vertices-per-cluster", "50", least=1)
    return KernelSettings(name, radius, polynomial, (dead[0], dead[1], dead[2]), cluster)


def _data(reader: Reader, configuration: Configuration, element: Element, name: str) -> tuple[str, str]:
    mesh = reader.known(element, "mesh", "mesh", configuration.meshes)
    return mesh, reader.known(element, name, f'data of mesh "{mesh}"', configuration.meshes[mesh].data)
