"""Placeholders such as {ranks} in a user's own commands, scripts and file names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping

from precice_lb.exceptions import CalibrationError, StudyError
from precice_lb.plugins import choices

__all__ = ["check_placeholders", "fill", "split_command"]

# Not the shell's own ${name}.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")


def check_placeholders(text: str, known: Collection[str]) -> None:
    """Refuse placeholders that nothing would be put in for."""
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            hint = choices(name, sorted(known))
            raise StudyError(f"unknown placeholder {{{name}}}{hint}; the shell's own are written ${{{name}}}")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values in place of the placeholders that have one; everything else stays as it is."""
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def split_command(key: str, text: str) -> list[str]:
    """Split a command line of the ``[launcher]`` table as a shell would."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CalibrationError(f"launcher.{key}: expected a command line, found {text!r}: {error}") from error
