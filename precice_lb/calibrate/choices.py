"""Hints for names that are unknown because they are misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

__all__ = ["choices", "close_match"]


def choices(name: str, known: Sequence[str]) -> str:
    """Return what to add to "unknown …": the closest match, if any, and all that is known."""
    return f"{close_match(name, known)} (known: {', '.join(known)})"


def close_match(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean …?" where something known is close to ``name``, otherwise nothing."""
    matches = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
