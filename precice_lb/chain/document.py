"""What a chain says of itself to those who look at it: ``chain.json``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from precice_lb.campaign.state import Document, read_json, write_json
from precice_lb.exceptions import CalibrationError
from precice_lb.text import to_jsonable

CHAIN_FILE = "chain.json"
# What each segment has of every participant.
_BY_NAME = ("split", "seconds", "wait_share")
_CHAIN = Document("precice-lb-chain", 1, "record of a chain")

_CONFIG = ConfigDict(extra="ignore")
Count = Annotated[int, Field(ge=0)]
Ranks = Annotated[int, Field(ge=1)]
# JSON has no NaN: what was not measured is null.
Seconds = Annotated[
    float, Field(allow_inf_nan=True), BeforeValidator(lambda value: math.nan if value is None else value)
]
Split = Annotated[dict[str, Ranks], Field(min_length=1)]
Kind = Literal["start", "learn", "move", "undo", "stay"]


@dataclass(frozen=True, config=_CONFIG)
class Decision:
    """The split of the next segment.

    Attributes
    ----------
    split : dict of str to int
        Ranks of each participant.
    kind : {"start", "learn", "move", "undo", "stay"}
        The first segment's; a split run for what it teaches; one that pays; back to one that was faster; as before.
    decision : str
        What was decided and why, in one line.
    """

    split: Split
    kind: Kind
    decision: str


@dataclass(frozen=True, config=_CONFIG)
class Segment:
    """One finished segment, for the next decision and for ``chain.json``; what was not measured is NaN.

    Attributes
    ----------
    split : dict of str to int
        Ranks.
    windows : int
        Time windows, warm-up included.
    window_seconds : float
        Mean wall time of a window after warm-up.
    seconds, standard_errors : dict of str to float
        Compute time per window after warm-up by participant, and its standard error.
    latest : dict of str to float
        Compute time per window in the latest windows: the load that the next segment starts with.
    border_seconds : float
        Wall time beyond that of its windows: preparing, starting, collecting; not time in a queue.
    change_seconds : float
        Of these, preparing and collecting, which is what another split costs: whoever stays starts as well.
    wait_share : dict of str to float
        Part of a window in which a participant waits for its partners.
    segment : int
        From 1.
    run : str
        Directory below ``runs``.
    start_window : int
        Time windows of the chain before it.
    kind, decision : str
        As of the `Decision` for its split.
    """

    split: Split
    windows: Count
    window_seconds: Seconds
    seconds: dict[str, Seconds]
    standard_errors: dict[str, Seconds] = Field(default_factory=dict)
    latest: dict[str, Seconds] = Field(default_factory=dict)
    border_seconds: Seconds = 0.0
    change_seconds: Seconds = math.nan
    wait_share: dict[str, Seconds] = Field(default_factory=dict)
    segment: Ranks = 1
    run: str = ""
    start_window: Count = 0
    kind: Kind = "stay"
    decision: str = ""


@dataclass(frozen=True, config=_CONFIG)
class ChainDocument:
    """A whole chain.

    Attributes
    ----------
    study : str
        Path of the study file.
    total_windows, windows_done : int
        Time windows of the whole chain, and of its finished segments.
    segments : list of Segment
        Those that are finished, in their order.
    next : Decision or None
        The decision for the one after them; None at the end, where the chain has stopped, and until it is made.
    problem : str or None
        Why the chain has stopped, in one line.
    unit : {"ranks", "cores"}
        What splits count: cores where participants have threads.
    """

    study: str
    total_windows: Count
    windows_done: Count
    segments: list[Segment]
    next: Decision | None = None
    problem: str | None = None
    unit: Literal["ranks", "cores"] = "ranks"

    @property
    def participants(self) -> tuple[str, ...]:
        """Names, as the first split has them."""
        first = self.segments[0] if self.segments else self.next
        return () if first is None else tuple(first.split)

    @property
    def is_over(self) -> bool:
        """Whether no segment follows: all windows are done, or the chain has stopped."""
        return self.windows_done >= self.total_windows or self.problem is not None

    def save(self, directory: Path) -> None:
        """Replace ``chain.json`` in one step."""
        write_json(directory / CHAIN_FILE, to_jsonable(self), _CHAIN)


def read_chain(directory: Path) -> ChainDocument | None:
    """Read ``chain.json``; None where there is none, a `CalibrationError` if it is damaged or contradicts itself."""
    path = directory / CHAIN_FILE
    chain = read_json(path, ChainDocument, _CHAIN)
    if chain is None:
        return None
    names = sorted(chain.participants)
    named = {f"segments[{entry.segment}].{key}": getattr(entry, key) for entry in chain.segments for key in _BY_NAME}
    if chain.next is not None:
        named["next.split"] = chain.next.split
    for where, values in named.items():
        if sorted(values) != names:
            raise CalibrationError(f"{path}: damaged {_CHAIN.what}: {where}: expected {names}, found {sorted(values)}")
    return chain
