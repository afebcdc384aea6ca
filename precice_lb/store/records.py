"""What one rank recorded, as read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RankStore"]


@dataclass(frozen=True, eq=False)
class RankStore:
    """What one rank recorded.

    Attributes
    ----------
    path : Path
        The file.
    metadata : dict
        Values by key, as `precice_lb.store.metadata.METADATA` describes them.
    configuration : str
        Text of ``precice-config.xml``.
    advances : ndarray
        Rows of `precice_lb.store.schema.ADVANCE_DTYPE`, in the order of the calls.
    initialize : ndarray
        Rows of `precice_lb.store.schema.INITIALIZE_DTYPE`, at most one.
    """

    path: Path
    metadata: dict[str, Any]
    configuration: str
    advances: NDArray[np.void]
    initialize: NDArray[np.void]

    @property
    def interval_unix_ns(self) -> tuple[int, int]:
        """Unix time in ns from when to when the rank recorded, for a killed one up to its last row."""
        start: int = self.metadata["started_unix_ns"]
        end = self.metadata.get("ended_unix_ns")
        if end is None:
            last = start
            offset = start - self.metadata["started_clock_ns"]
            if len(self.initialize):
                last = offset + int(self.initialize["begin_ns"][-1] + self.initialize["initialize_ns"][-1])
            if len(self.advances):
                last = offset + int(self.advances["begin_ns"][-1] + self.advances["advance_ns"][-1])
            end = last
        return start, max(start, end)
