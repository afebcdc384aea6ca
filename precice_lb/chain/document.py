"""What a chain says of itself to those who look at it: ``chain.json``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from precice_lb.campaign.state import Document, read_json, write_json
from precice_lb.exceptions import CalibrationError
from precice_lb.text import to_jsonable

CHAIN_FILE = "chain.json"
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
class SegmentEntry:
    """One finished segment; what was not measured is NaN.

    Attributes
    ----------
    segment : int
        From 1.
    run : str
        Directory below ``runs``.
    start_window : int
        Time windows of the chain before it.
    split : dict of str to int
        Ranks.
    windows : int
        Its time windows.
    window_seconds : float
        Mean wall time of a window after warm-up.
    seconds : dict of str to float
        Compute time per window after warm-up by participant.
    wait_share : dict of str to float
        Part of a window in which a participant waits for its partners.
    border_seconds : float
        Wall time beyond that of its windows.
    kind : {"start", "learn", "move", "undo", "stay"}
        As of `precice_lb.chain.document.Decision`.
    decision : str
        Why it has this split, in one line.
    """

    segment: Ranks
    run: str
    start_window: Count
    split: Split
    windows: Count
    window_seconds: Seconds
    seconds: dict[str, Seconds]
    wait_share: dict[str, Seconds]
    border_seconds: Seconds
    kind: Kind
    decision: str


@dataclass(frozen=True, config=_CONFIG)
class ChainDocument:
    """A whole chain.

    Attributes
    ----------
    study : str
        Path of the study file.
    total_windows, windows_done : int
        Time windows of the whole chain, and of its finished segments.
    segments : list of SegmentEntry
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
    segments: list[SegmentEntry]
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
    names, done, damaged = ", ".join(sorted(chain.participants)), 0, f"{path}: damaged {_CHAIN.what}"

    def check(where: str, expected: object, actual: object) -> None:
        if actual != expected:
            raise CalibrationError(f"{damaged}: {where}: expected {expected}, found {actual}")

    for place, entry in enumerate(chain.segments):
        start = (entry.segment, entry.start_window)
        check(f"segments[{place + 1}]: its number and first window", (place + 1, done), start)
        for key in ("split", "seconds", "wait_share"):
            check(f"segments[{place + 1}].{key}", names, ", ".join(sorted(getattr(entry, key))) or "none")
        done += entry.windows
    if chain.next is not None:
        check("next.split", names, ", ".join(sorted(chain.next.split)))
    check(
        "windows done, as its segments have, of at least as many",
        (done, True),
        (chain.windows_done, done <= chain.total_windows),
    )
    return chain


@dataclasses.dataclass(frozen=True)
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
    standard_errors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    latest: Mapping[str, float] = dataclasses.field(default_factory=dict)
    border_seconds: float = 0.0
    change_seconds: float = math.nan
