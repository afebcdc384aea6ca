"""Names that people give to versions of participants and to kinds of nodes, keys such as Fluid:gpu, and saying them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TextIO, TypeVar

__all__ = ["checked_name", "for_versions", "key_of", "say", "visible", "with_versions", "without_versions"]

T = TypeVar("T")


def visible(text: str) -> str:
    r"""Write out every control or invisible formatting character of a text.

    Parameters
    ----------
    text : str
        Such as a name, of which nobody knows what it does to a terminal.

    Returns
    -------
    str
        One line.
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print lines, `visible` but for tabs: everything but screens and data goes to the user through here.

    Parameters
    ----------
    text : str
        The lines.
    stream : file, optional
        Where to; by default standard output.
    """
    lines = ("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))
    print("\n".join(lines), file=stream, flush=True)


def checked_name(text: object, what: str) -> str:
    """Return a name that may stand in files' names, in splits such as Fluid:gpu=2, and in tables.

    Parameters
    ----------
    text : object
        What was found.
    what : str
        Of what it is the name, such as "version".

    Returns
    -------
    str

    Raises
    ------
    ValueError
        It is no such name.
    """
    if isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", text):
        return text
    raise ValueError(f"expected letters, digits, _ . and - as the name of a {what}, found {text!r}")


def key_of(name: str, version: str) -> str:
    """Write the key of one version of a participant: Fluid:gpu.

    Parameters
    ----------
    name, version : str
        The participant and its version, empty where it has none.

    Returns
    -------
    str
    """
    return f"{name}:{version}" if version else name


def with_versions(of: Mapping[str, T], versions: Mapping[str, str]) -> dict[str, T]:
    """Write versions into the names of participants: Fluid:gpu.

    Parameters
    ----------
    of : mapping from participant
        Such as a split.
    versions : mapping from participant to str
        Empty, or not there, for who has none.

    Returns
    -------
    dict
    """
    return {key_of(name, versions.get(name, "")): value for name, value in of.items()}


def without_versions(of: Mapping[str, T]) -> tuple[dict[str, T], dict[str, str]]:
    """Take the versions out of the names of participants.

    Parameters
    ----------
    of : mapping from participant, or participant:version
        Such as a split.

    Returns
    -------
    dict
        By participant; the last entry of one that stands there twice.
    dict of str to str
        The versions of those that have one.
    """
    parts = [(*key.partition(":")[::2], value) for key, value in of.items()]
    return {name: value for name, _, value in parts}, {name: version for name, version, _ in parts if version}


def for_versions(of: Mapping[str, T], versions: Mapping[str, str]) -> dict[str, T]:
    """Give what holds where each participant runs as one version: what is said of that, else of the participant.

    Parameters
    ----------
    of : mapping from participant, or participant:version
        Such as bounds.
    versions : mapping from participant to str
        Of those that have any.

    Returns
    -------
    dict
        By participant.
    """
    others = {key: value for key, value in of.items() if key.partition(":")[0] not in versions}
    plain = {name: of[name] for name in versions if name in of}
    return others | plain | {name: of[key] for name, v in versions.items() if (key := f"{name}:{v}") in of}
