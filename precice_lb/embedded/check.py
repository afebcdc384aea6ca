"""What this backend can do: everything else in a configuration is refused before anything runs.

The whole file is checked at every participant, so that all of them refuse it together. Tags that change no result of
the simulation (``log``, ``profiling``, ``intra-comm``) are accepted and without effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NoReturn

from precice_lb.embedded.dataflow import check_data_flow
from precice_lb.embedded.iteration_rules import check_iterations
from precice_lb.embedded.settings import kernel_settings, mapping_element
from precice_lb.embedded.tags import TAGS, badly_written, identity
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.precice_xml import Configuration, Element

__all__ = ["check_supported", "is_true"]

_HIGHEST_DEGREE = 3
_MEMBER = ("coupling-scheme:multi", "participant")


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
    for scheme in configuration.coupling_schemes:
        check_iterations(configuration, scheme)
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

    def check_tags(self, element: Element, known_as: str | None = None) -> None:
        attributes, inside = TAGS[known_as or element.tag]
        if unknown := set(element.attributes) - attributes:
            raise ConfigurationError(
                f"{self._configuration.path}, line {element.line}: expected only the attributes "
                f"{', '.join(sorted(attributes)) or 'none'} in <{element.tag}>, found {', '.join(sorted(unknown))}: "
                "correct or remove it"
            )
        seen: set[tuple[str, ...]] = set()
        for child in element.children:
            # The one tag that means two things.
            tag = "participant-of-multi" if (element.tag, child.tag) == _MEMBER else child.tag
            if tag not in inside:
                self._unsupported(child.tag, child.line)
            if (key := identity(child)) in seen:
                raise ConfigurationError(
                    f"{self._configuration.path}, line {child.line}: expected one such <{child.tag}> in "
                    f"<{element.tag}>, found a second: remove one"
                )
            if key:
                seen.add(key)
            self.check_tags(child, tag)

    def check_values(self) -> None:
        for element in _walk(self._configuration.root):
            for name in ("allow-remeshing", "use-two-level-initialization", "api-access", "direct-access"):
                if is_true(element.attributes.get(name)):
                    self._unsupported(f'{element.tag} {name}="{element.attributes[name]}" …', element.line)
            if (badly := badly_written(element)) is not None and badly != "port":
                self._wrong(element, f'a number as "{badly}"', element.attributes[badly])
            port = element.attributes.get("port", "0")
            if not (port.isdecimal() and int(port) < 65536):
                self._wrong(element, "a port number", port)
            if element.attributes.get("on-bound-violation", "ignore") != "ignore":
                self._unsupported(f'{element.tag} on-bound-violation="…"', element.line)
        for data in self._configuration.data.values():
            if data.waveform_degree > _HIGHEST_DEGREE:
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
                if mapping.constraint not in ("consistent", "conservative"):
                    self._unsupported(f'{tag} constraint="{mapping.constraint}" …', mapping.line)
                if mapping.source is None or mapping.target is None:
                    self._unsupported(tag, mapping.line, " without both from and to (just-in-time mapping)")
                if mapping.kind.startswith("rbf"):
                    kernel_settings(self._configuration, mapping_element(self._configuration, mapping))


def _walk(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _walk(child)
