"""What a start costs in coupling iterations, as recorded: the first windows of runs beside their later ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precice_lb.calibrate.state import CampaignState
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.exceptions import DataError
from precice_lb.precice_xml import parse_configuration

__all__ = ["FIRST", "Border", "border_of", "borders"]

FIRST = 5
"""Windows that count as the first ones."""


@dataclass(frozen=True)
class Border:
    """Coupling iterations of a run that ended well: a segment of a chain, or a run of a campaign.

    Attributes
    ----------
    run : str
        Its directory's name.
    split : dict of str to int
        Ranks of each participant.
    first : tuple of float
        Of its first windows.
    later : float
        Mean of all later windows.
    windows : int
        How many these are.
    """

    run: str
    split: dict[str, int]
    first: tuple[float, ...]
    later: float
    windows: int

    @property
    def extra(self) -> float:
        """Iterations that the first windows took beyond as many later ones."""
        return sum(self.first) - len(self.first) * self.later


def borders(directory: Path) -> list[Border]:
    """Read the iterations of a chain's or a campaign's runs; those too short to have later windows are left out.

    Raises
    ------
    DataError
        The directory is neither a chain's nor a campaign's.
    """
    state = CampaignState.load(directory)
    if state is None:
        raise DataError(f"{directory}: expected the directory of a chain or a campaign, found no campaign.json")
    found = []
    for record in state.finished:
        (run,) = load_runs([directory / record.directory / "stores"])
        found.append(border_of(record.name, record.split, run))
    return [each for each in found if each is not None]


def border_of(name: str, split: dict[str, int], run: CoupledRun) -> Border | None:
    """Compare first and later windows; None where no participant iterates, or there are fewer later windows."""
    schemes = parse_configuration(run.configuration).coupling_schemes
    iterating = {name for scheme in schemes if scheme.is_implicit for name in scheme.participants}
    series = [run.participants[each].iterations for each in sorted(iterating & run.participants.keys())]
    iterations = max(series, key=np.sum, default=np.empty(0))
    if len(iterations) < 2 * FIRST:
        return None
    first = tuple(float(each) for each in iterations[:FIRST])
    return Border(name, dict(split), first, float(iterations[FIRST:].mean()), len(iterations) - FIRST)
