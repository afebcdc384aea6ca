"""Placeholders such as {ranks} in a user's own commands, scripts and file names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from precice_lb.calibrate.choices import choices
from precice_lb.exceptions import StudyError

__all__ = ["check_placeholders", "fill"]

# Not the shell's own ${name}.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")


def check_placeholders(text: str, known: Collection[str]) -> None:
    """Refuse placeholders that nothing would be put in for.

    Raises
    ------
    StudyError
        Naming the placeholder and those there are.
    """
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            hint = choices(name, sorted(known))
            raise StudyError(f"unknown placeholder {{{name}}}{hint}; the shell's own are written ${{{name}}}")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values in place of the placeholders that have one; everything else stays as it is."""
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)
