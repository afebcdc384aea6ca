"""Counted things in messages: 1 rank, 2 ranks."""

from __future__ import annotations

__all__ = ["plural"]


def plural(count: float, noun: str, form: str = "") -> str:
    """Write a count with its noun, which gets an s unless there is exactly one.

    Parameters
    ----------
    count : float
        How many.
    noun : str
        Of one thing.
    form : str
        How the count is written, as in a format string.

    Returns
    -------
    str
    """
    return f"{count:{form}} {noun}{'' if count == 1 else 's'}"
