"""The tags and attributes of a configuration that this backend knows, with what may stand inside them."""

from __future__ import annotations

import re

from precice_lb.embedded.settings import KERNELS
from precice_lb.precice_xml import Element

__all__ = ["TAGS", "badly_written", "identity"]

_BOUNDS = {f"{side}-bound" for side in ("lower", "upper")}
_SCHEME = {"participants", "max-time", "max-time-windows", "time-window-size", "exchange"}
_MEASURES = {
    f"{kind}convergence-measure" for kind in ("absolute-", "relative-", "residual-relative-", "absolute-or-relative-")
}
_IMPLICIT = {
    *(*_MEASURES, "min-iterations", "max-iterations"),
    *("acceleration:constant", "acceleration:aitken", "acceleration:IQN-ILS"),
}
_MEASURE = {"data", "mesh", "suffices", "strict"}
_FUNCTIONS = {f"basis-function:{name}" for name in KERNELS}
_DEAD = {"x-dead", "y-dead", "z-dead"}
_MAPPING = {"direction", "from", "to", "constraint"}

#: Tags with the attributes that preCICE 3.4 knows for them, and the tags inside them that are supported.
TAGS: dict[str, tuple[set[str], set[str]]] = {
    "precice-configuration": (
        {"experimental", "allow-remeshing", "wait-in-finalize"},
        {
            *("log", "profiling", "data:scalar", "data:vector", "mesh", "participant", "m2n:sockets"),
            *("coupling-scheme:serial-explicit", "coupling-scheme:parallel-explicit"),
            *("coupling-scheme:serial-implicit", "coupling-scheme:parallel-implicit", "coupling-scheme:multi"),
        },
    ),
    "log": ({"enabled"}, {"sink"}),
    "sink": ({"type", "output", "format", "filter", "enabled"}, set()),
    "profiling": ({"mode", "flush-every", "directory", "synchronize"}, set()),
    "intra-comm:sockets": ({"port", "network", "exchange-directory"}, set()),
    "intra-comm:mpi": ({"exchange-directory"}, set()),
    # Bounds serve quasi-Newton acceleration with on-bound-violation alone, which is not supported.
    "data:scalar": ({"name", "waveform-degree", *_BOUNDS}, set()),
    "data:vector": ({"name", "waveform-degree", *(f"{b}-{axis}" for b in _BOUNDS for axis in "xyz")}, set()),
    "mesh": ({"name", "dimensions"}, {"use-data"}),
    "use-data": ({"name"}, set()),
    "participant": (
        {"name"},
        {
            *("provide-mesh", "receive-mesh", "read-data", "write-data", "watch-point"),
            *("mapping:nearest-neighbor", "mapping:nearest-projection"),
            *("mapping:rbf", "mapping:rbf-global-direct", "mapping:rbf-pum-direct"),
            *("intra-comm:sockets", "intra-comm:mpi"),
        },
    ),
    "provide-mesh": ({"name"}, set()),
    "receive-mesh": ({"name", "from", "safety-factor", "geometric-filter", "api-access", "direct-access"}, set()),
    "read-data": ({"name", "mesh"}, set()),
    "write-data": ({"name", "mesh"}, set()),
    "mapping:nearest-neighbor": (_MAPPING, set()),
    "mapping:nearest-projection": (_MAPPING, set()),
    "mapping:rbf": (_MAPPING | _DEAD, _FUNCTIONS),
    "mapping:rbf-global-direct": (_MAPPING | _DEAD | {"polynomial"}, _FUNCTIONS | {"executor:cpu"}),
    "mapping:rbf-pum-direct": (
        _MAPPING | {"polynomial", "vertices-per-cluster", "relative-overlap", "project-to-input"},
        _FUNCTIONS | {"executor:cpu"},
    ),
    "executor:cpu": (set(), set()),
    **{name: ({"support-radius"} if "compact" in name else set(), set()) for name in _FUNCTIONS},
    "watch-point": ({"name", "mesh", "coordinate"}, set()),
    "m2n:sockets": (
        {
            *("acceptor", "connector", "exchange-directory", "network", "port"),
            *("enforce-gather-scatter", "use-two-level-initialization"),
        },
        set(),
    ),
    "coupling-scheme:serial-explicit": (set(), _SCHEME),
    "coupling-scheme:parallel-explicit": (set(), _SCHEME),
    "coupling-scheme:serial-implicit": (set(), _SCHEME | _IMPLICIT),
    "coupling-scheme:parallel-implicit": (set(), _SCHEME | _IMPLICIT),
    "coupling-scheme:multi": (set(), ((_SCHEME | _IMPLICIT) - {"participants"}) | {"participant-of-multi"}),
    "participants": ({"first", "second"}, set()),
    "participant-of-multi": ({"name", "control"}, set()),
    "max-time": ({"value"}, set()),
    "max-time-windows": ({"value"}, set()),
    "time-window-size": ({"value", "method"}, set()),
    "exchange": ({"data", "mesh", "from", "to", "initialize", "substeps"}, set()),
    "min-iterations": ({"value"}, set()),
    "max-iterations": ({"value"}, set()),
    "absolute-convergence-measure": ({*_MEASURE, "limit"}, set()),
    "relative-convergence-measure": ({*_MEASURE, "limit"}, set()),
    "residual-relative-convergence-measure": ({*_MEASURE, "limit"}, set()),
    "absolute-or-relative-convergence-measure": ({*_MEASURE, "abs-limit", "rel-limit"}, set()),
    "acceleration:constant": (set(), {"relaxation"}),
    "acceleration:aitken": (set(), {"data", "initial-relaxation"}),
    "acceleration:IQN-ILS": (
        {"reduced-time-grid", "on-bound-violation"},
        {
            *("data", "initial-relaxation", "max-used-iterations", "time-windows-reused"),
            *("filter", "preconditioner"),
        },
    ),
    "relaxation": ({"value"}, set()),
    "initial-relaxation": ({"value", "enforce"}, set()),
    "max-used-iterations": ({"value"}, set()),
    "time-windows-reused": ({"value"}, set()),
    "filter": ({"type", "limit"}, set()),
    "preconditioner": ({"type", "update-on-threshold", "freeze-after"}, set()),
    "data": ({"name", "mesh", "scaling"}, set()),
}

_ONCE = {
    *(*(_SCHEME - {"exchange"}), *(_IMPLICIT - _MEASURES)),
    *("log", "profiling", "intra-comm:sockets", "intra-comm:mpi", "executor:cpu"),
    *("relaxation", "initial-relaxation", "max-used-iterations", "time-windows-reused", "filter", "preconditioner"),
}

#: Tags that may not name the same thing twice inside their parent, and what tells them apart.
_DISTINCT = {
    "use-data": ("use-data", "name"),
    "provide-mesh": ("mesh", "name"),
    "receive-mesh": ("mesh", "name"),
    "read-data": ("data", "name", "mesh"),
    "write-data": ("data", "name", "mesh"),
    "watch-point": ("watch-point", "name"),
}


_WHOLE = {
    *("max-time-windows", "min-iterations", "max-iterations", "max-used-iterations", "time-windows-reused"),
    *("waveform-degree", "freeze-after", "flush-every", "vertices-per-cluster", "port"),
}
_REAL = {
    *("max-time", "time-window-size", "relaxation", "initial-relaxation", "limit", "abs-limit", "rel-limit"),
    *("safety-factor", "support-radius", "scaling", "relative-overlap"),
}
_DIGITS = re.compile(r"\s*[+-]?[0-9]+")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def badly_written(element: Element) -> str | None:
    """Name an attribute whose number Python reads and preCICE does not (``xml/ValueParser.cpp``), None without one."""
    for name, value in element.attributes.items():
        what = element.tag if name == "value" else name
        parts = value.split("/", 1) if what in _REAL else [value]
        pattern = _DIGITS if what in _WHOLE else _NUMBER
        if what in _WHOLE | _REAL and not all(pattern.fullmatch(part) for part in parts):
            return name
    return None


def identity(element: Element) -> tuple[str, ...]:
    """Return what may occur only once beside this element; empty if any number may."""
    if element.tag in _ONCE:
        return (element.tag,)
    if (distinct := _DISTINCT.get(element.tag)) is None:
        return ()
    return (distinct[0], *(element.attributes.get(name, "") for name in distinct[1:]))
