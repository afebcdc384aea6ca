"""Time windows of a chain of jobs: how many there are in all, how many a segment gets, and when it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from precice_lb.calibrate.study import Study
from precice_lb.chain.records import Segment
from precice_lb.exceptions import StudyError
from precice_lb.precice_xml import Configuration, read_configuration
from precice_lb.precice_xml.records import CouplingScheme

# A window is not left out for the rounding of its end.
_ROUNDING = 1e-9


class ChainWindows:
    """Counts the time windows of a study's chain: the longest ones, where coupling schemes differ."""

    def __init__(self, study: Study) -> None:
        if study.chain is None:
            raise StudyError(f"{study.path}: expected the table [chain], found none; configs/README.md has its keys")
        self.chain = study.chain
        self._first = study.runs.windows
        configuration = read_configuration(study.configuration_path)
        self._size = _longest(configuration)
        self.total = study.chain.total or _total(configuration, self._size)
        if math.isnan(self._size) and _start_time_is_used(study):
            raise StudyError(
                f"{study.path}: expected a configuration with a time-window-size for {{start_time}}, found one whose "
                "windows the first participant sizes; keep the time in what chain.carry names"
            )

    def start_time(self, window: int) -> str:
        """Write the coupling time after so many windows, without what rounding would add to it."""
        if math.isnan(self._size):
            return "0"
        return f"{float(window * Decimal(repr(self._size))):.15g}"

    def of_next(self, segments: Sequence[Segment], split: dict[str, int] | None = None) -> int:
        """Return how many windows the next segment gets, at this split or that of the last one.

        As many as the study says, or as fit into its minutes beside what a border takes, at the window time of the
        latest segment with this split, else of the last one; never more than are left.
        """
        left = self.total - sum(segment.windows for segment in segments)
        if self.chain.minutes is None:
            return min(self.chain.windows or left, left)
        if not segments:
            return min(self._first, left)
        last = segments[-1]
        like = next((each for each in reversed(segments) if each.split == split), last)
        seconds = 60 * self.chain.minutes - last.border_seconds
        fit = int(seconds / like.window_seconds) if like.window_seconds > 0 else self._first
        return min(max(fit, 1), left)


def _longest(configuration: Configuration) -> float:
    sizes = [scheme.time_window_size for scheme in configuration.coupling_schemes if not scheme.window_size_from_first]
    return max(sizes, default=math.nan)


def _total(configuration: Configuration, longest: float) -> int:
    """Count the windows until the first coupling scheme ends."""
    ends = [end for scheme in configuration.coupling_schemes for end in _ends(scheme, longest)]
    if not ends:
        raise StudyError(
            f"chain.total: expected the number of time windows of the whole chain, since {configuration.path.name} "
            "does not say how many there are, found none"
        )
    return max(math.ceil(min(ends) - _ROUNDING * min(ends)), 1)


def _ends(scheme: CouplingScheme, longest: float) -> list[float]:
    """Return the limits of a coupling scheme, in windows of the longest."""
    share = 1.0 if scheme.window_size_from_first else scheme.time_window_size / longest
    ends = [] if scheme.max_time_windows is None else [scheme.max_time_windows * share]
    if scheme.max_time is not None and not math.isnan(scheme.time_window_size):
        ends.append(scheme.max_time / longest)
    return ends


def _start_time_is_used(study: Study) -> bool:
    texts: list[str] = []
    for each in study.participants:
        texts += [*each.commands().values(), *each.prepare, *each.collect]
        place = study.case_directory / each.directory
        texts += [(place / template).read_text(encoding="utf-8") for template in each.templates]
    return any("{start_time}" in text for text in texts)
