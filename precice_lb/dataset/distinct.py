"""Rows of measurements that are given twice."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

__all__ = ["distinct"]


def distinct(rows: Sequence[tuple[Hashable, float]]) -> list[int]:
    """Find the rows that are not given twice: two measurements never agree to all digits.

    Parameters
    ----------
    rows : sequence of tuple
        For each row what was measured (participant, ranks, seconds, parameters), and its standard error in seconds; NaN
        where unknown, as in a table without that column.

    Returns
    -------
    list of int
        Rising positions of the rows to keep. Of rows that agree in all but their standard errors those are kept whose
        standard errors differ; one without is kept only if no other has any.
    """
    errors: dict[Hashable, dict[float, int]] = {}
    for position, (measured, error) in enumerate(rows):
        known = errors.setdefault(measured, {})
        known.setdefault(-1.0 if math.isnan(error) else error, position)
    for known in errors.values():
        if len(known) > 1:
            known.pop(-1.0, None)
    return sorted(position for known in errors.values() for position in known.values())
