"""Names that people give to versions of participants and to kinds of nodes."""

from __future__ import annotations

import re

__all__ = ["checked_name"]


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
