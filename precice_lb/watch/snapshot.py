"""What a running simulation looks like at one moment."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset.series import Drift
from precice_lb.plain import plain

__all__ = ["DRIFT", "FORMAT_VERSION", "ParticipantState", "Rebalance", "Snapshot"]

#: Version of what `Snapshot.to_dict` gives.
FORMAT_VERSION = 2
DRIFT = 0.05
"""A load that changed by this share counts as drifting, where chance would hardly give it."""


@dataclass(frozen=True, eq=False)
class ParticipantState:
    """One participant.

    Attributes
    ----------
    participant : str
        Its name.
    ranks : int
        Ranks it runs on.
    ranks_seen : int
        Ranks whose files are there.
    state : {"running", "ended", "stopped"}
        ``stopped`` is what ended before the coupling did: killed, or failed.
    windows : int
        The last time window that all its ranks completed.
    window_seconds, compute_seconds, wait_seconds : float
        Medians over the latest windows of their wall time, of the time without waiting for partners, and of that
        waiting; NaN where not measured.
    wait_share, wait_share_so_far : float
        Share of the wall time that it waits for partners, in the latest windows and in all after warm-up; NaN where
        not measured.
    drift : Drift
        Trend of its compute seconds over all windows after warm-up.
    shift : Drift
        Its compute seconds in the latest windows beside those before.
    history_windows, history_wait_share, history_compute_seconds : ndarray, shape (k,)
        The course so far in at most `precice_lb.watch.observer.BINS` parts: the last window of each, the share of
        waiting and the mean compute seconds in it; NaN where not measured.
    problems : dict of str to int
        Why waits were not measured, with the number of ranks.
    """

    participant: str
    ranks: int
    ranks_seen: int
    state: str
    windows: int
    window_seconds: float
    compute_seconds: float
    wait_seconds: float
    wait_share: float
    wait_share_so_far: float
    drift: Drift
    shift: Drift
    history_windows: NDArray[np.int64]
    history_wait_share: NDArray[np.float64]
    history_compute_seconds: NDArray[np.float64]
    problems: dict[str, int]

    @property
    def is_drifting(self) -> bool:
        """Whether its load is not what it was."""
        return abs(self.change) > DRIFT

    @property
    def change(self) -> float:
        """The larger one of `shift` and `drift` among those that chance hardly gives; 0 where there is none."""
        changes = [each.change for each in (self.shift, self.drift) if each.significant]
        return max(changes, key=abs, default=0.0)


@dataclass(frozen=True)
class Rebalance:
    """What another split would bring, by the measured models at the load of the latest windows.

    Attributes
    ----------
    split : dict of str to int
        The split that is recommended for as many ranks.
    present : dict of str to int
        The split that runs.
    window_seconds, present_seconds : float
        Expected seconds per time window with the one and the other.
    interval : (float, float)
        80 % interval of ``window_seconds``; NaN where unknown.
    gain : float
        ``present_seconds / window_seconds - 1``.
    probability : float
        That the recommended split is faster; NaN where unknown.
    restart_seconds : float
        What a restart costs; NaN where unknown.
    restart_measured : bool
        Whether that is what this run's own start-up took, since nothing else was said: the least that a restart costs.
    windows_to_pay : float
        After how many further windows a restart has paid for its cost; infinite where it never does, NaN where unknown.
    basis : str
        What the models rest on, in words.
    warnings : tuple of str
        What speaks against trusting this blindly.
    """

    split: dict[str, int]
    present: dict[str, int]
    window_seconds: float
    present_seconds: float
    interval: tuple[float, float]
    gain: float
    probability: float
    restart_seconds: float
    restart_measured: bool
    windows_to_pay: float
    basis: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A running simulation at one moment.

    Attributes
    ----------
    run : str
        Its name.
    unix_seconds : float
        When this was seen, in seconds of Unix time.
    participants : tuple of ParticipantState
        By name.
    windows : int
        Time windows that all participants have completed.
    windows_left : int or None
        Time windows until the end that the configuration sets; None where it sets none.
    window_seconds : float
        Median wall time of the latest windows, of the slowest participant.
    waiting : float
        Share of all core time that was waiting for partners in the latest windows; NaN where not measured.
    latest : int
        How many windows the latest ones are, at most.
    rebalance : Rebalance or None
        What another split would bring; None where that cannot be told, which ``notes`` then say.
    notes : tuple of str
        What is missing, and why.
    """

    run: str
    unix_seconds: float
    participants: tuple[ParticipantState, ...]
    windows: int
    windows_left: int | None
    window_seconds: float
    waiting: float
    latest: int
    rebalance: Rebalance | None
    notes: tuple[str, ...] = field(default=())

    @property
    def is_running(self) -> bool:
        """Whether some participant still runs."""
        return any(each.state == "running" for each in self.participants)

    @property
    def measures(self) -> dict[str, float]:
        """What thresholds may be set on, as shares: gain, waiting, drift; NaN where unknown."""
        return {
            "gain": self.rebalance.gain if self.rebalance else math.nan,
            "waiting": self.waiting,
            "drift": max((abs(each.change) for each in self.participants if each.is_drifting), default=0.0),
        }

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types: seconds, shares of 1, null where something is not known."""
        measures = plain(self.measures)
        values = {"format": "precice-lb-watch", "format_version": FORMAT_VERSION, **plain(self), "measures": measures}
        for each, state in zip(values["participants"], self.participants, strict=True):
            each["is_drifting"] = state.is_drifting
        return values
