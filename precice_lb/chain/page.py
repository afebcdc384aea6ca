"""``chain.json``: what a chain did and does next, for scripts and for those who watch it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precice_lb.calibrate.state import RunRecord, replace_json
from precice_lb.chain.measured import wait_shares
from precice_lb.chain.records import Decision, Segment
from precice_lb.chain.segments import note_of
from precice_lb.dataset import CoupledRun

__all__ = ["CHAIN_FILE", "ChainPage"]

CHAIN_FILE = "chain.json"
FORMAT, FORMAT_VERSION = "precice-lb-chain", 1


@dataclass(frozen=True)
class ChainPage:
    """The state of a chain beside its segments: its study, its windows, the next decision, why it stopped."""

    study: Path
    total_windows: int
    windows_done: int
    decision: Decision | None = None
    problem: str | None = None

    @staticmethod
    def path(directory: Path) -> Path:
        """Return where a chain's page is."""
        return directory / CHAIN_FILE

    def save(self, directory: Path, segments: Sequence[tuple[RunRecord, Segment, CoupledRun]]) -> None:
        """Replace the page in one step."""
        following = self.decision
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "study": str(self.study),
            "total_windows": self.total_windows,
            "windows_done": self.windows_done,
            "segments": [_entry(*each) for each in segments],
            "next": None
            if following is None
            else {"split": following.split, "kind": following.kind, "decision": following.text},
            "problem": self.problem,
        }
        replace_json(self.path(directory), content)


def _entry(record: RunRecord, segment: Segment, run: CoupledRun) -> dict[str, Any]:
    note = note_of(record)
    return {
        "segment": note.number,
        "run": record.name,
        "start_window": note.start_window,
        "split": dict(segment.split),
        "windows": segment.windows,
        "window_seconds": segment.window_seconds,
        "seconds": _known(segment.seconds),
        "wait_share": _known(wait_shares(run)),
        "border_seconds": segment.border_seconds,
        "kind": note.kind,
        "decision": record.reason,
    }


def _known(values: Mapping[str, float]) -> dict[str, float | None]:
    """Write what is unknown as null, which JSON has."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
