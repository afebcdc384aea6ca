"""What is recorded of first guesses, and what they add to a configuration that is no part of the case."""

from __future__ import annotations

import numpy as np

from precice_lb.store.columns import INDISPENSABLE, ORIGINALS, Attributes, Column, register

PREFIX = "Guess-of-"
"""What names of the data fields begin with that carry first guesses from one participant to another."""

SHIFTED = "Shifted-"
"""What names of the data fields begin with that are iterated on instead of others, less what was guessed of those."""

GUESSES = register(
    "guesses",
    Column("window", "<i8", "1", "time window that was begun with a first guess", INDISPENSABLE),
    Column("name", "<i4", "1", "predictor that made the guess, as a position in `/guess_names`", INDISPENSABLE),
    Column("cost_ns", "<i8", "ns", "what the rank spent on guessing for it", INDISPENSABLE),
    Column(
        "error",
        "<f8",
        "1",
        "what the guess was wrong by over what the last value would have been (norms); NaN for none",
        np.nan,
    ),
    names="guess_names",
)


@ORIGINALS.append
def _original(tag: str, attributes: Attributes) -> Attributes | None:
    """Leave out the fields of first guesses, and call shifted data by its own name where it is iterated on."""
    named = attributes.get("name", "") or attributes.get("data", "")
    iterated = tag == "data" or tag.endswith("-measure")
    if named.startswith(PREFIX) or (named.startswith(SHIFTED) and not iterated):
        return None
    return {name: value.removeprefix(SHIFTED) for name, value in attributes.items()} if iterated else attributes
