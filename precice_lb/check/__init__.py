"""Is the data good enough to learn from? Warm-up, drift, outliers, spread and other load, with what to do."""

from __future__ import annotations

from precice_lb.check.participants import CheckResult
from precice_lb.check.runs import check_runs

__all__ = ["CheckResult", "check_runs"]
