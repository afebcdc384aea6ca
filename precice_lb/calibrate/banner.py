"""What launchers add to a log when a rank fails: it stands last and hides the solver's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["is_banner", "without_banner"]

_BANNER = re.compile(
    r"^(=|-{10,}|YOUR APPLICATION TERMINATED|This typically refers to a problem|Please see the FAQ"
    r"|Primary job +terminated|a non-zero exit code|mpi(exec|run)\S* (detected|noticed) that"
    r"|the job to be terminated\. The first process|\s+Process name:|\s+Exit code:"
    r"|srun: (error: \S+ tasks? \S+: |Terminating|Job step aborted|launch/slurm: )|slurmstepd: error: \*\*\*)"
)


def is_banner(line: str) -> bool:
    """Whether a line is of what a launcher adds."""
    return _BANNER.match(line) is not None


def without_banner(lines: Sequence[str]) -> list[str]:
    """Drop from the end of a log what a launcher adds when a rank fails, unless nothing else is there."""
    return [line for line in lines if not is_banner(line)] or list(lines)
