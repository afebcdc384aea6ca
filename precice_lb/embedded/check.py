"""What this backend can do: everything else in a configuration is refused before anything runs.

The whole file is checked at every participant, so that all of them refuse it together. Tags that change no result of
the simulation (``log``, ``profiling``, ``intra-comm``) are accepted and without effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NoReturn

from precice_lb.embedded.dataflow import check_data_flow
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.precice_xml import Configuration, Element

__all__ = ["check_supported", "is_true"]

_BOUNDS = {f"{side}-bound" for side in ("lower", "upper")}
_SCHEME = {"participants", "max-time", "max-time-windows", "time-window-size", "exchange"}

#: Tags with the attributes that preCICE 3.4 knows for them, and the tags inside them that are supported.
_TAGS: dict[str, tuple[set[str], set[str]]] = {
    "precice-configuration": (
        {"experimental", "allow-remeshing", "wait-in-finalize"},
        {
            *("log", "profiling", "data:scalar", "data:vector", "mesh", "participant", "m2n:sockets"),
            *("coupling-scheme:serial-explicit", "coupling-scheme:parallel-explicit"),
        },
    ),
    "log": ({"enabled"}, {"sink"}),
    "sink": ({"type", "output", "format", "filter", "enabled"}, set()),
    "profiling": ({"mode", "flush-every", "directory", "synchronize"}, set()),
    "intra-comm:sockets": ({"port", "network", "exchange-directory"}, set()),
    "intra-comm:mpi": ({"exchange-directory"}, set()),
    # Bounds serve quasi-Newton acceleration alone: explicit schemes do not look at them.
    "data:scalar": ({"name", "waveform-degree", *_BOUNDS}, set()),
    "data:vector": ({"name", "waveform-degree", *(f"{b}-{axis}" for b in _BOUNDS for axis in "xyz")}, set()),
    "mesh": ({"name", "dimensions"}, {"use-data"}),
    "use-data": ({"name"}, set()),
    "participant": (
        {"name"},
        {
            *("provide-mesh", "receive-mesh", "read-data", "write-data", "mapping:nearest-neighbor"),
            *("intra-comm:sockets", "intra-comm:mpi"),
        },
    ),
    "provide-mesh": ({"name"}, set()),
    "receive-mesh": ({"name", "from", "safety-factor", "geometric-filter", "api-access", "direct-access"}, set()),
    "read-data": ({"name", "mesh"}, set()),
    "write-data": ({"name", "mesh"}, set()),
    "mapping:nearest-neighbor": ({"direction", "from", "to", "constraint"}, set()),
    "m2n:sockets": (
        {
            *("acceptor", "connector", "exchange-directory", "network", "port"),
            *("enforce-gather-scatter", "use-two-level-initialization"),
        },
        set(),
    ),
    "coupling-scheme:serial-explicit": (set(), _SCHEME),
    "coupling-scheme:parallel-explicit": (set(), _SCHEME),
    "participants": ({"first", "second"}, set()),
    "max-time": ({"value"}, set()),
    "max-time-windows": ({"value"}, set()),
    "time-window-size": ({"value", "method"}, set()),
    "exchange": ({"data", "mesh", "from", "to", "initialize", "substeps"}, set()),
}
_ONCE = (_SCHEME - {"exchange"}) | {"log", "profiling", "intra-comm:sockets", "intra-comm:mpi"}

#: Tags that may not name the same thing twice inside their parent, and what tells them apart.
_DISTINCT = {
    "use-data": ("use-data", "name"),
    "provide-mesh": ("mesh", "name"),
    "receive-mesh": ("mesh", "name"),
    "read-data": ("read-data", "name", "mesh"),
    "write-data": ("write-data", "name", "mesh"),
}


def is_true(value: str | None) -> bool:
    """Truth of an attribute, as preCICE reads it."""
    return value is not None and value.lower() in {"1", "yes", "true", "on"}


def check_supported(configuration: Configuration, participant: str, size: int) -> None:
    """Refuse what this backend cannot do exactly as preCICE does it.

    Parameters
    ----------
    configuration
        The whole configuration.
    participant
        Name of the participant that is about to run.
    size
        Number of its ranks.

    Raises
    ------
    UnsupportedConfigurationError
        Naming tag and line of what libprecice does and this backend does not.
    ConfigurationError
        Naming what preCICE would refuse as well.
    """
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
    judge = _Judge(configuration)
    judge.check_tags(configuration.root)
    judge.check_values()
    check_data_flow(configuration, participant, size)


class _Judge:
    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def _unsupported(self, tag: str, line: int, why: str = "") -> NoReturn:
        raise UnsupportedConfigurationError(
            f"{self._configuration.path}, line {line}: the embedded backend does not know <{tag}>{why}; libprecice "
            "does it: install libprecice and pyprecice, or change the configuration"
        )

    def _wrong(self, element: Element, expected: str, found: str) -> NoReturn:
        raise ConfigurationError(
            f"{self._configuration.path}, line {element.line}: expected {expected} in <{element.tag}>, found "
            f'"{found}": correct it'
        )

    def check_tags(self, element: Element) -> None:
        attributes, inside = _TAGS[element.tag]
        if unknown := set(element.attributes) - attributes:
            raise ConfigurationError(
                f"{self._configuration.path}, line {element.line}: expected only the attributes "
                f"{', '.join(sorted(attributes)) or 'none'} in <{element.tag}>, found {', '.join(sorted(unknown))}: "
                "correct or remove it"
            )
        seen: set[tuple[str, ...]] = set()
        for child in element.children:
            if child.tag not in inside:
                self._unsupported(child.tag, child.line)
            if (key := _identity(child)) in seen:
                raise ConfigurationError(
                    f"{self._configuration.path}, line {child.line}: expected one such <{child.tag}> in "
                    f"<{element.tag}>, found a second: remove one"
                )
            if key:
                seen.add(key)
            self.check_tags(child)

    def check_values(self) -> None:
        for element in _walk(self._configuration.root):
            for name in ("allow-remeshing", "use-two-level-initialization", "api-access", "direct-access", "substeps"):
                if is_true(element.attributes.get(name)):
                    self._unsupported(f'{element.tag} {name}="{element.attributes[name]}" …', element.line)
            port = element.attributes.get("port", "0")
            if not (port.isdecimal() and int(port) < 65536):
                self._wrong(element, "a port number", port)
            if element.attributes.get("method", "fixed") != "fixed":
                self._unsupported(f'{element.tag} method="{element.attributes["method"]}" …', element.line)
        for data in self._configuration.data.values():
            if data.waveform_degree > 1:
                tag = "data:vector" if data.is_vector else "data:scalar"
                self._unsupported(f'{tag} waveform-degree="{data.waveform_degree}" …', data.line)
        for participant in self._configuration.participants.values():
            for received in participant.receives:
                if not 0.0 <= received.safety_factor < math.inf:
                    raise ConfigurationError(
                        f"{self._configuration.path}, line {received.line}: expected a safety-factor of at least 0, "
                        f"found {received.safety_factor:g}: correct it"
                    )
            for mapping in participant.mappings:
                tag = f"mapping:{mapping.kind}"
                if mapping.constraint != "consistent":
                    self._unsupported(f'{tag} constraint="{mapping.constraint}" …', mapping.line)
                if mapping.source is None or mapping.target is None:
                    self._unsupported(tag, mapping.line, " without both from and to (just-in-time mapping)")


def _identity(element: Element) -> tuple[str, ...]:
    """Return what may occur only once beside this element; empty if any number may."""
    if element.tag in _ONCE:
        return (element.tag,)
    if (distinct := _DISTINCT.get(element.tag)) is None:
        return ()
    return (distinct[0], *(element.attributes.get(name, "") for name in distinct[1:]))


def _walk(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _walk(child)
