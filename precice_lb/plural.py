"""Counted things in messages: 1 rank, 2 ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["counts_text", "first_of", "numbered", "plural", "span"]

_MOST_NAMED = 8


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


def span(low: int, high: int, noun: str) -> str:
    """Write a range of counts with their noun: 2 to 4 ranks, or 2 ranks where both ends are one.

    Parameters
    ----------
    low, high : int
        Its ends.
    noun : str
        Of one thing.

    Returns
    -------
    str
    """
    return plural(high, noun) if low == high else f"{low} to {plural(high, noun)}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Write what each has of something: Fluid 12, Solid 4.

    Parameters
    ----------
    counts : mapping from name to int
        Such as the ranks of a split.

    Returns
    -------
    str
    """
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def first_of(names: Sequence[str], most: int = 4) -> str:
    """Name the first of some things, and count the others: a, b and 3 more.

    Parameters
    ----------
    names : sequence of str
        All of them.
    most : int
        How many are named.

    Returns
    -------
    str
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def numbered(numbers: Sequence[int], noun: str = "rank") -> str:
    """Name things by their numbers, of many the first ones: ranks 1, 3.

    Parameters
    ----------
    numbers : sequence of int
        Of each.
    noun : str
        Of one.

    Returns
    -------
    str
    """
    shown = ", ".join(map(str, numbers[:_MOST_NAMED])) + (", …" if len(numbers) > _MOST_NAMED else "")
    return f"{noun}{'' if len(numbers) == 1 else 's'} {shown}"
