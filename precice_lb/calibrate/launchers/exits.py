"""What a job leaves behind of how its participants ended: a file of ``begin``, ``exit`` and ``end`` lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from precice_lb.calibrate.processes import Outcome, ending

__all__ = ["EXIT_FILE", "Exits", "read_exits"]

EXIT_FILE = "exits"


@dataclass(frozen=True)
class Exits:
    """Exit codes by participant in the order of their ends, and the seconds from begin to end (None: no end yet)."""

    codes: dict[str, int]
    begun: bool
    seconds: float | None

    @property
    def ended(self) -> bool:
        """Whether the job's script came to its end."""
        return self.seconds is not None

    def outcome(self) -> Outcome:
        """Say how the run ended; the first that failed is to blame."""
        failed = next(((name, code) for name, code in self.codes.items() if code), None)
        if failed is None:
            return Outcome(self.seconds or 0.0)
        # A shell tells of a signal as 128 and its number.
        code = 128 - failed[1] if failed[1] > 128 else failed[1]
        return Outcome(self.seconds or 0.0, f"{failed[0]} {ending(code)}", (failed[0],))


def read_exits(path: Path) -> Exits:
    """Read the file; what is not there, or only begun, counts as not ended."""
    codes: dict[str, int] = {}
    begin = end = None
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError:
        lines = []
    for line in lines[:-1]:  # behind the last line break may be a part of a line
        kind, _, rest = line.partition(" ")
        if kind == "begin":
            begin = float(rest)
        elif kind == "end":
            end = float(rest)
        elif kind == "exit":
            code, _, name = rest.partition(" ")
            codes[name] = int(code)
    seconds = None if end is None else max(0.0, end - (end if begin is None else begin))
    return Exits(codes, begin is not None, seconds)
