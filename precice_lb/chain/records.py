"""What a chain of jobs knows of its segments, and what is decided between two of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["start", "learn", "move", "undo", "stay"]


@dataclass(frozen=True)
class Segment:
    """One finished segment of a chain, as far as the next decision needs it.

    Attributes
    ----------
    split : mapping from participant to int
        Ranks.
    windows : int
        Time windows, warm-up included.
    window_seconds : float
        Mean wall time of a window after warm-up.
    seconds, standard_errors : mapping from participant to float
        Compute time per window after warm-up, and its standard error; NaN where that is unknown.
    latest : mapping from participant to float
        Compute time per window in the latest windows: the load that the next segment starts with.
    border_seconds : float
        Wall time beyond that of its windows: preparing, starting, collecting; not time in a queue.
    change_seconds : float
        Of these, preparing and collecting, which is what another split costs: whoever stays starts as well. NaN where
        it is not known apart.
    """

    split: Mapping[str, int]
    windows: int
    window_seconds: float
    seconds: Mapping[str, float]
    standard_errors: Mapping[str, float] = field(default_factory=dict)
    latest: Mapping[str, float] = field(default_factory=dict)
    border_seconds: float = 0.0
    change_seconds: float = math.nan


@dataclass(frozen=True)
class Decision:
    """The split of the next segment.

    Attributes
    ----------
    split : dict of str to int
        Ranks of each participant.
    kind : {"start", "learn", "move", "undo", "stay"}
        The first segment's; a split run for what it teaches; one that pays; back to one that was faster; as before.
    text : str
        What was decided and why, in one line.
    """

    split: dict[str, int]
    kind: Kind
    text: str
