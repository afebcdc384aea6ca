"""The one list of what this backend supports of a ``precice-config.xml``; everything else is refused with its line.

What tags and attributes do not show stands below it: schemes, exchanges and mappings that this backend cannot combine.
Whether the data flow makes sense is not checked: preCICE's ``precice-config-validate`` does that. The whole file is
checked at every participant, so that all of them refuse it together. What changes no result of the simulation (``log``,
``intra-comm``) is on the list and without effect.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from precice_lb.embedded.assemble import elements_of, mapped_data, schemes_of, watched_place
from precice_lb.embedded.mapping import KERNELS
from precice_lb.embedded.timeline import TOLERANCE
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.precice_xml.config import Configuration, CouplingScheme, Participant
from precice_lb.precice_xml.elements import Element, is_true

_WHOLE = re.compile(r"\s*[+-]?[0-9]+")
_REAL = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class _Kind(NamedTuple):
    """What an attribute may be; others are wrong, or `only_libprecice` takes them."""

    what: str
    fits: Callable[[str], bool]
    required: bool = False
    only_libprecice: bool = False


class _Tag(NamedTuple):
    """A tag: its attributes, and the tags that may stand inside it once or any number of times."""

    attributes: dict[str, _Kind]
    once: str = ""
    many: str = ""


def _one_of(*values: str) -> _Kind:
    return _Kind(" or ".join(f'"{value}"' for value in values), values.__contains__, only_libprecice=True)


def _whole(least: int, most: float = math.inf) -> _Kind:
    """Whole numbers as preCICE writes them (``xml/ValueParser.cpp``)."""
    what = f"a whole number of at least {least}" + (f" and at most {most}" if most < math.inf else "")
    return _Kind(what, lambda value: bool(_WHOLE.fullmatch(value)) and least <= int(value) <= most)


def _number(value: str) -> float:
    """Read a number, or a quotient such as ``1/3``; NaN if it is none."""
    parts = value.split("/", 1)
    if not all(_REAL.fullmatch(part) for part in parts) or (len(parts) > 1 and float(parts[1]) == 0.0):
        return math.nan
    return float(parts[0]) / float(parts[1]) if len(parts) > 1 else float(parts[0])


def _real(above: float, most: float = math.inf) -> _Kind:
    what = f"a number greater than {above:g}" + (f" and at most {most:g}" if most < math.inf else "")
    return _Kind(what, lambda value: above < _number(value) <= most and _number(value) < math.inf)


_ANY = _Kind("text", lambda value: True)
_GIVEN = _ANY._replace(required=True)
_OFF = _Kind('"false"', lambda value: not is_true(value), only_libprecice=True)
_COUNT = _whole(1)._replace(required=True)
_POSITIVE = _real(1e-14)._replace(required=True)
_SHARE = _real(1e-14, 1.0)._replace(required=True)
_DEGREE = _whole(0, 3)._replace(only_libprecice=True)
_MESH = _Kind("a mesh (without it, mapping is just-in-time)", bool, required=True, only_libprecice=True)
_NAME = {"name": _GIVEN}
_PAIR = {"name": _GIVEN, "mesh": _GIVEN}
_MEASURE = {"data": _GIVEN, "mesh": _GIVEN, "suffices": _OFF, "strict": _OFF}
_MAPPING = {
    **{"direction": _one_of("read", "write"), "from": _MESH, "to": _MESH},
    "constraint": _one_of("consistent", "conservative"),
}
_RBF = _Tag(_MAPPING, once=" ".join(f"basis-function:{name}" for name in KERNELS))
_TIMES = "max-time max-time-windows time-window-size"
_ITERATIONS = f"{_TIMES} max-iterations acceleration:constant acceleration:aitken acceleration:IQN-ILS"
_EXCHANGES = "exchange absolute-convergence-measure relative-convergence-measure"
_SCHEMES = "serial-explicit parallel-explicit serial-implicit parallel-implicit multi"
_SINK = ("type", "output", "format", "filter", "enabled")

_ALLOWED = {
    "precice-configuration": _Tag(
        {"experimental": _ANY, "allow-remeshing": _OFF, "wait-in-finalize": _OFF},
        once="log profiling",
        many="data:scalar data:vector mesh participant m2n:sockets "
        + " ".join(f"coupling-scheme:{kind}" for kind in _SCHEMES.split()),
    ),
    "log": _Tag({"enabled": _ANY}, many="sink"),
    "sink": _Tag(dict.fromkeys(_SINK, _ANY)),
    "profiling": _Tag(
        {
            "mode": _one_of("off", "fundamental", "api", "all"),
            "flush-every": _whole(0),
            "directory": _ANY,
            "synchronize": _ANY,
        }
    ),
    "data:scalar": _Tag({**_NAME, "waveform-degree": _DEGREE}),
    "data:vector": _Tag({**_NAME, "waveform-degree": _DEGREE}),
    "mesh": _Tag({**_NAME, "dimensions": _one_of("2", "3")}, many="use-data"),
    "use-data": _Tag(_NAME),
    "participant": _Tag(
        _NAME,
        once="intra-comm:sockets intra-comm:mpi",
        many="provide-mesh receive-mesh read-data write-data watch-point mapping:nearest-neighbor mapping:rbf "
        "mapping:rbf-global-direct",
    ),
    "intra-comm:sockets": _Tag(dict.fromkeys(("port", "network", "exchange-directory"), _ANY)),
    "intra-comm:mpi": _Tag({"exchange-directory": _ANY}),
    "provide-mesh": _Tag(_NAME),
    "receive-mesh": _Tag(
        {
            **{"name": _ANY, "from": _ANY, "geometric-filter": _ANY, "api-access": _OFF, "direct-access": _OFF},
            "safety-factor": _Kind("a safety-factor of at least 0", lambda value: 0.0 <= _number(value) < math.inf),
        }
    ),
    "read-data": _Tag(_PAIR),
    "write-data": _Tag(_PAIR),
    "watch-point": _Tag({**_PAIR, "coordinate": _ANY}),
    "mapping:nearest-neighbor": _Tag(_MAPPING),
    "mapping:rbf": _RBF,
    "mapping:rbf-global-direct": _RBF,
    **{f"basis-function:{name}": _Tag({"support-radius": _POSITIVE} if "compact" in name else {}) for name in KERNELS},
    "m2n:sockets": _Tag(
        {
            **dict.fromkeys(("acceptor", "connector", "exchange-directory", "network", "enforce-gather-scatter"), _ANY),
            "port": _Kind("a port number", lambda value: value.isdecimal() and int(value) < 65536),
            "use-two-level-initialization": _OFF,
        }
    ),
    "coupling-scheme:serial-explicit": _Tag({}, f"participants {_TIMES}", "exchange"),
    "coupling-scheme:parallel-explicit": _Tag({}, f"participants {_TIMES}", "exchange"),
    "coupling-scheme:serial-implicit": _Tag({}, f"participants {_ITERATIONS}", _EXCHANGES),
    "coupling-scheme:parallel-implicit": _Tag({}, f"participants {_ITERATIONS}", _EXCHANGES),
    "coupling-scheme:multi": _Tag({}, _ITERATIONS, f"participant {_EXCHANGES}"),
    "coupling-scheme:multi/participant": _Tag({**_NAME, "control": _ANY}),
    "participants": _Tag({"first": _ANY, "second": _ANY}),
    "max-time": _Tag({"value": _POSITIVE}),
    "max-time-windows": _Tag({"value": _COUNT}),
    "time-window-size": _Tag({"value": _real(-math.inf), "method": _one_of("fixed", "first-participant")}),
    "exchange": _Tag(dict.fromkeys(("data", "mesh", "from", "to", "initialize", "substeps"), _ANY)),
    "max-iterations": _Tag({"value": _COUNT}),
    "absolute-convergence-measure": _Tag({**_MEASURE, "limit": _POSITIVE}),
    "relative-convergence-measure": _Tag({**_MEASURE, "limit": _SHARE}),
    "acceleration:constant": _Tag({}, once="relaxation"),
    "acceleration:aitken": _Tag({}, once="initial-relaxation", many="data"),
    "acceleration:IQN-ILS": _Tag(
        {},
        once="initial-relaxation max-used-iterations time-windows-reused filter preconditioner",
        many="data",
    ),
    "relaxation": _Tag({"value": _SHARE}),
    "initial-relaxation": _Tag({"value": _SHARE, "enforce": _OFF}),
    "max-used-iterations": _Tag({"value": _COUNT}),
    "time-windows-reused": _Tag({"value": _COUNT._replace(only_libprecice=True)}),
    "filter": _Tag({"type": _one_of("QR1", "QR2", "QR3")._replace(required=True), "limit": _real(0.0)}),
    "preconditioner": _Tag({"type": _one_of("constant", "residual-sum")._replace(required=True)}),
    "data": _Tag({**_PAIR, "scaling": _real(0.0)}),
}
#: Tags of one family may not name the same thing twice.
_FAMILIES = {"read-data": "data", "write-data": "data"}


def check_supported(configuration: Configuration, participant: str, size: int) -> None:
    """Refuse what this backend cannot do, for a participant of `size` ranks."""
    if participant not in configuration.participants:
        known = ", ".join(f'"{name}"' for name in configuration.participants)
        raise ConfigurationError(
            f'expected one of the participants {known} of {configuration.path}, found "{participant}": check the name '
            "that the solver passes to Participant"
        )
    if len(configuration.participants) < 2:
        raise ConfigurationError(
            f"expected at least two participants in {configuration.path}, found one: one participant makes no coupling"
        )
    _check(configuration, configuration.root, _ALLOWED["precice-configuration"])
    for me in configuration.participants.values():
        for element in elements_of(configuration, me.name, "watch-point"):
            watched_place(configuration, element)
        parallel = _in_parallel(me) if size > 1 and me.name == participant else ()
        for line, what in (*_in_schemes(configuration, me), *_in_exchanges(configuration, me), *parallel):
            raise UnsupportedConfigurationError(
                f'{configuration.path}, line {line}: participant "{me.name}" {what}, which the embedded backend does '
                "not know"
            )


def _in_schemes(configuration: Configuration, me: Participant) -> Iterator[tuple[int, str]]:
    schemes = schemes_of(configuration, me.name)
    implicit = [scheme for scheme in schemes if scheme.is_implicit]
    if len(implicit) > 1:
        yield implicit[1].line, "has a second implicit coupling scheme"
    for other in schemes[1:]:
        if not _fit_together(schemes[0], other, implicit[0] if implicit else None):
            yield other.line, "has coupling schemes whose time windows or ends do not fit together"


def _fit_together(first: CouplingScheme, other: CouplingScheme, implicit: CouplingScheme | None) -> bool:
    """Whether schemes have fixed windows and one end, explicit windows being multiples of implicit ones."""
    sizes = [scheme.time_window_size for scheme in (first, other)]
    ends = [(scheme.max_time_windows or math.inf) * scheme.time_window_size for scheme in (first, other)]
    # A window size of the first participant is NaN: of several schemes none may have it.
    together = first.max_time == other.max_time and math.isclose(*ends, rel_tol=1e-12) and not math.isnan(sum(sizes))
    # As in CompositionalCouplingScheme.cpp.
    step = math.inf if implicit is None else implicit.time_window_size
    return together and (implicit is None or all(abs(math.remainder(size, step)) <= TOLERANCE for size in sizes))


def _in_exchanges(configuration: Configuration, me: Participant) -> Iterator[tuple[int, str]]:
    provider_of = dict.fromkeys(me.provides, me.name) | {mesh.name: mesh.provider for mesh in me.receives}
    mapped = (
        (str(mapping.target), data) for mapping in me.mappings for data in mapped_data(configuration, me, mapping)
    )
    filled = {*me.writes, *mapped}
    exchanges = [exchange for scheme in schemes_of(configuration, me.name) for exchange in scheme.exchanges]
    for exchange in exchanges:
        if me.name not in (exchange.source, exchange.target):
            continue
        if provider_of.get(exchange.mesh) not in (exchange.source, exchange.target):
            yield exchange.line, f'exchanges data on mesh "{exchange.mesh}", which neither of the two provides'
        if exchange.target == me.name:
            if (exchange.mesh, exchange.data) in filled:
                what = f'gets data "{exchange.data}" on mesh "{exchange.mesh}" from more than one place'
                yield exchange.line, what
            filled.add((exchange.mesh, exchange.data))


def _in_parallel(me: Participant) -> Iterator[tuple[int, str]]:
    for mapping in me.mappings:
        if (mapping.direction == "write") != (mapping.constraint == "conservative"):
            what = "writes with a consistent" if mapping.direction == "write" else "reads with a conservative"
            yield mapping.line, f"{what} mapping on several ranks"
        if mapping.kind == "rbf":
            yield mapping.line, "runs on several ranks with <mapping:rbf …>"


def _check(configuration: Configuration, element: Element, tag: _Tag) -> None:
    for name, kind in tag.attributes.items():
        if kind.required and name not in element.attributes:
            _refuse(configuration, element, f'{kind.what} as "{name}"', "none", kind.only_libprecice)
    for name, value in element.attributes.items():
        if name not in tag.attributes:
            _refuse(configuration, element, f"the attributes {', '.join(tag.attributes) or 'none'}", name, True)
        elif not (kind := tag.attributes[name]).fits(value):
            _refuse(configuration, element, f'{kind.what} as "{name}"', f'{name}="{value}"', kind.only_libprecice)
    seen: set[tuple[str, ...]] = set()
    for child in element.children:
        if child.tag not in (*tag.once.split(), *tag.many.split()):
            raise UnsupportedConfigurationError(
                f"{configuration.path}, line {child.line}: the embedded backend does not know <{child.tag}> in "
                f"<{element.tag}>; libprecice does it: install libprecice and pyprecice, or change the configuration"
            )
        if "name" in child.attributes:
            family = _FAMILIES.get(child.tag, child.tag)
            key = (family, child.attributes["name"], child.attributes.get("mesh", "") if family == "data" else "")
            if key in seen:
                _refuse(configuration, child, "one such tag", "a second", False)
            seen.add(key)
        _check(configuration, child, _ALLOWED.get(f"{element.tag}/{child.tag}") or _ALLOWED[child.tag])


def _refuse(
    configuration: Configuration, element: Element, expected: str, found: str, only_libprecice: bool
) -> NoReturn:
    where = f"{configuration.path}, line {element.line}: "
    if only_libprecice:
        raise UnsupportedConfigurationError(
            f"{where}the embedded backend takes only {expected} in <{element.tag}>, found {found}; if it is no "
            "mistake, libprecice does it: install libprecice and pyprecice, or change the configuration"
        )
    raise ConfigurationError(f"{where}expected {expected} in <{element.tag}>, found {found}: correct it")
