"""What no recommendation may say: such results are errors of ours, and their case is kept."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from precice_lb.exceptions import InternalError
from precice_lb.recommend.result import Recommendation
from precice_lb.schedule import Schedule

__all__ = ["require_sound"]

# Rounding.
_EPS = 1e-6
# What the mean of a finite replay may be below the window of the mean costs.
_REPLAYED = 0.01


def require_sound(recommendation: Recommendation, schedule: Schedule) -> None:
    """Refuse a result that cannot be."""
    problems = list(_problems(recommendation, schedule))
    if not problems:
        return
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="precice-lb-error-", suffix=".json", delete=False, encoding="utf-8"
        ) as file:
            json.dump({"problems": problems, "recommendation": recommendation.to_dict()}, file, default=str)
        where = f"the case is in {Path(file.name)}; please report it with that file"
    except OSError as error:
        where = f"the case could not be written ({error})"
    raise InternalError(f"precice_lb made a recommendation that cannot be ({'; '.join(problems)}); {where}")


def _problems(recommendation: Recommendation, schedule: Schedule) -> Iterator[str]:
    window, (low, high) = recommendation.window_seconds, recommendation.interval
    if window < low * (1 - _EPS) or window > high * (1 + _EPS):
        yield f"a window of {window:.6g} s outside of its interval of {low:.6g} to {high:.6g} s"
    for name, wait in recommendation.waits.items():
        if wait > window * (1 + _EPS):
            yield f"{name} waits {wait:.6g} s in a window of {window:.6g} s"
    steady = float(schedule.window_seconds(recommendation.compute_seconds))
    if steady > window * (1 + _REPLAYED):
        yield f"compute seconds that need a window of {steady:.6g} s, not {window:.6g} s"
