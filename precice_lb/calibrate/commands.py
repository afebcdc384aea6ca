"""Commands of a study: placeholders such as {ranks}, the program that is started, and whether that exists."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from precice_lb.exceptions import CalibrationError, StudyError
from precice_lb.plugins import choices

__all__ = ["check_command", "check_placeholders", "command_tokens", "fill", "split_command"]

# Options of the Python interpreter that take their value as the next token.
_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
# Not the shell's own ${name}.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")


def command_tokens(command: str, directory: Path, case: Path) -> tuple[str, ...]:
    """Split a command as a shell would and put the program it starts in place of its name.

    ``python`` and ``python3`` are the interpreter that runs the campaign; a name with a slash is relative to the
    participant's ``directory`` in the ``case``, of which a run takes a copy; any other name is looked for beside the
    interpreter, then on the path.
    """
    try:
        tokens = shlex.split(command)
    except ValueError as error:
        raise StudyError(f"expected a command, found {command!r}: {error}") from error
    if not tokens:
        raise StudyError("expected a command, found an empty text")
    return (_program(tokens[0], directory, case), *tokens[1:])


def _program(name: str, directory: Path, case: Path) -> str:
    if name in {"python", "python3"}:
        return sys.executable
    if "/" in name:
        path = directory / os.path.expanduser(name)
        if not path.is_file():
            raise StudyError(f"no such program: {path}")
        if not os.access(path, os.X_OK):
            raise StudyError(f"{path} is not executable: chmod +x it, or name its interpreter in the command")
        # What lies in the case is started from the run's copy of it.
        return name if _copied(name, directory, case) else str(path.resolve())
    found = _found(name)
    if found is None:
        raise StudyError(f"no program {name!r} beside {sys.executable} or on the path")
    return found


def _found(name: str) -> str | None:
    """Path of the program of that name: the one beside this Python first."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def _copied(name: str, directory: Path, case: Path) -> bool:
    """Whether a name is relative and stays inside the case."""
    if os.path.isabs(os.path.expanduser(name)):
        return False
    return Path(os.path.normpath(directory / name)).is_relative_to(os.path.normpath(case))


def check_command(command: str, directory: Path, case: Path) -> None:
    """Check that a command's program exists, and its script where it is one of Python's."""
    script, by_run = _script(command_tokens(command, directory, case))
    if script is None:
        return
    if not (directory / script).exists():
        by_name = by_run and "/" not in script
        if by_name and _found(script) is not None:
            return
        also = f", nor a program of that name beside {sys.executable} or on the path" if by_name else ""
        raise StudyError(f"no such script: {directory / script}{also}")
    if not os.path.isabs(script) and not _copied(script, directory, case):
        raise StudyError(
            f"{script} lies outside the case {case}, of which each run takes a copy: give its absolute path"
        )


def _script(tokens: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return what ``python S``, ``python -m precice_lb run S`` or ``precice-lb run S`` runs, and whether by ``run``.

    None for other commands.
    """
    rest = list(tokens[1:])
    if tokens[0] == sys.executable:
        while rest and rest[0].startswith("-") and rest[0] not in {"-m", "-c", "-"}:
            del rest[: 2 if rest[0] in _VALUED else 1]
        if rest[:1] != ["-m"]:
            return (rest[0] if rest and rest[0] not in {"-c", "-"} else None), False
        if rest[:2] != ["-m", "precice_lb"]:
            return None, False
        rest = rest[2:]
    elif Path(tokens[0]).name != "precice-lb":
        return None, False
    if rest[:1] != ["run"]:
        return None, False
    return (rest[1] if len(rest) > 1 and not rest[1].startswith("-") else None), True


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
