"""What a participant would have cost with its ranks in balance: measurements for a recommendation."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.inside.balance import FORMAT, FORMAT_VERSION


@dataclass(frozen=True)
class Gains:
    """What the ranks of a participant spent in runs, by the costs of what they held, and will in balance.

    Attributes
    ----------
    participant : str
        Its name.
    ranks : tuple of int
        Of each run.
    slowest, mean : tuple of float
        Seconds per time window of the slowest rank of each run, and the mean over its ranks, as the costs say.
    after : float
        Slowest rank over the mean in the new partition; 1 is perfect balance.
    source : str
        The file.
    """

    participant: str
    ranks: tuple[int, ...]
    slowest: tuple[float, ...]
    mean: tuple[float, ...]
    after: float
    source: str = ""

    def gain(self, ranks: int) -> float:
        """Seconds per time window by which the slowest of so many ranks would be faster: the median of the runs."""
        found = [
            max(slowest - self.after * mean, 0.0)
            for count, slowest, mean in zip(self.ranks, self.slowest, self.mean, strict=True)
            if count == ranks
        ]
        if not found and ranks > 1:
            known = ", ".join(map(str, sorted(set(self.ranks))))
            raise DataError(
                f"{self.source}: expected what the ranks of {self.participant} held in its run on {ranks} ranks, found "
                f"runs on {known}; give precice-lb inside the same runs"
            )
        return float(np.median(found)) if found else 0.0


def read_gains(path: str | Path) -> Gains:
    """Read the ``inside.json`` that ``precice-lb inside STORE -o DIR`` wrote.

    Parameters
    ----------
    path : path
        The file, or its directory.

    Returns
    -------
    Gains

    Raises
    ------
    DataError
        If there is none, or it does not say how a participant can be balanced.
    """
    path = Path(path)
    file = path / "inside.json" if path.is_dir() else path
    wanted = f"{file}: expected what precice-lb inside STORE -o DIR wrote for a participant"
    try:
        raw: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if (raw["format"], raw["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise DataError(f"{wanted}, found format {raw['format']!r} version {raw['format_version']!r}")
        runs = raw["runs"]
        after = np.array(raw["partition"]["seconds"] if raw["partition"] else [])
        found = Gains(
            raw["participant"],
            tuple(int(run["ranks"]) for run in runs),
            tuple(float(np.max(run["predicted"])) for run in runs),
            tuple(float(np.mean(run["predicted"])) for run in runs),
            float(after.max() / after.mean()) if after.size else np.nan,
            str(file),
        )
    except OSError as error:
        raise DataError(f"{wanted}, found none: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{wanted}, found another file ({type(error).__name__}: {error}); write it anew") from None
    if not isinstance(found.participant, str) or not found.participant or not found.after >= 1.0:
        raise DataError(f"{wanted}, found no participant or no partition in it; name --participant, --mesh and --ranks")
    return found


def balanced(measurements: Measurements, balances: Sequence[Gains]) -> Measurements:
    """Take from samples what their slowest ranks would be faster by in balance.

    Whole runs that were measured are left out: they ran out of balance.

    Parameters
    ----------
    measurements : Measurements
        Of the runs that the balances are of.
    balances : sequence of Gains
        One for each participant that will run in balance.

    Returns
    -------
    Measurements

    Raises
    ------
    DataError
        If a participant is unknown or named twice, what its ranks held is not known of all samples, or a gain is larger
        than what it would be taken from.
    """
    frames, remarks = dict(measurements.frames), list(measurements.remarks)
    for number, balance in enumerate(balances):
        name = balance.participant
        if name not in frames or name in [other.participant for other in balances[:number]]:
            raise DataError(
                f"{balance.source}: expected one file for each of {', '.join(frames)}, found one for {name}; give one "
                "for each participant that will run in balance"
            )
        frame, layouts = frames[name], frames[name].layouts
        ran = set(zip(frame.version.tolist(), layouts, strict=True))
        # What ranks held is known by their number alone.
        if len({layout.ranks for _, layout in ran}) < len(ran):
            raise DataError(
                f"{balance.source}: expected one version of {name} with as many threads on each number of ranks, found "
                "several; give the runs of one version and one number of threads"
            )
        gains = np.array([balance.gain(layout.ranks) for layout in layouts])
        if (bad := gains >= frame.seconds).any():
            at = int(np.argmax(bad))
            raise DataError(
                f"{balance.source}: expected a gain below the {frame.seconds[at]:g} s per time window of {name} on "
                f"{layouts[at].words}, found {gains[at]:g} s; fit the costs to the runs that are given here"
            )
        shares = 100 * gains / frame.seconds
        remarks.append(
            f"{name} is taken to run in balance, on partitions as precice-lb inside writes them: {shares.min():.0f} to "
            f"{shares.max():.0f} % less per time window than measured."
        )
        frames[name] = dataclasses.replace(frame, seconds=frame.seconds - gains)
    frames = {name: dataclasses.replace(frame, communication=math.nan) for name, frame in frames.items()}
    return dataclasses.replace(measurements, frames=frames, runs=(), remarks=tuple(remarks))
