"""Runs that a design was told: ranks, seconds, standard errors and parameters of each participant."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precice_lb.calibrate.decision import Curves, learned
from precice_lb.calibrate.design import Split
from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError
from precice_lb.recommend.sources import check_samples

__all__ = ["ToldRuns"]

Array = NDArray[np.float64]


class ToldRuns:
    """Runs of participants, of which those with the values of ``parameter`` are of the case itself."""

    def __init__(self, names: tuple[str, ...], parameter: Mapping[str, float]) -> None:
        self.names = names
        self.parameter = {key: float(value) for key, value in parameter.items()}
        # Ranks, seconds, standard error, and the parameters.
        self._rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}

    def add(
        self,
        split: Mapping[str, int],
        seconds: Mapping[str, float],
        errors: Mapping[str, float],
        parameter: Mapping[str, float] | None,
    ) -> None:
        """Add a run, once it is sound."""
        for what, given in (("ranks", split), ("seconds", seconds)):
            if not isinstance(given, Mapping) or set(given) != set(self.names):
                found = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
                raise DataError(f"expected {what} of {', '.join(self.names)}, found {found or 'none'}")
        rows = check_samples({name: [(split[name], seconds[name])] for name in self.names})
        stated = self.parameter if parameter is None else parameter
        if set(stated) != set(self.parameter):
            raise DataError(
                f"expected the parameters of the case ({', '.join(self.parameter) or 'none'}), "
                f"found {', '.join(map(str, stated)) or 'none'}"
            )
        values = [float(stated[key]) for key in self.parameter]
        for name, row in rows.items():
            self._rows[name].append((*map(float, row[0]), float(errors.get(name, math.nan)), *values))

    def __len__(self) -> int:
        return len(self._rows[self.names[0]])

    @property
    def of_case(self) -> int:
        """How many runs were of the case itself."""
        return sum(row[3:] == tuple(self.parameter.values()) for row in self._rows[self.names[0]])

    def table(self, name: str) -> Array:
        """Give the rows of a participant, sorted, shape (runs, 3 + parameters)."""
        return np.array(sorted(self._rows[name]), dtype=np.float64)

    def learned(self, seed: int, *, usual_noise: bool) -> tuple[dict[str, Curves], dict[str, float]]:
        """Give curves of each participant drawn from what was told, and the relative noise of a run's seconds."""
        values = list(self.parameter.values())
        each = {
            name: learned(self.table(name), values, [seed, index], usual_noise=usual_noise)
            for index, name in enumerate(self.names)
        }
        return {name: curves for name, (curves, _) in each.items()}, {name: noise for name, (_, noise) in each.items()}

    def counts(self, name: str) -> set[float]:
        """Give the rank counts at which a participant was measured."""
        return {row[0] for row in self._rows[name]}

    def distance(self, split: Split) -> float:
        """Give the logarithmic distance of a split to the nearest one that was measured."""
        done = zip(*([row[0] for row in self._rows[name]] for name in self.names), strict=True)
        gaps = [sum(abs(math.log(split[n] / p)) for n, p in zip(self.names, ranks, strict=True)) for ranks in done]
        return min(gaps, default=0.0)

    def measurements(self) -> Measurements:
        """Return all of it as a table."""
        table = {name: self.table(name) for name in self.names}
        return Measurements(
            {name: rows[:, :2] for name, rows in table.items()},
            {name: rows[:, 2] for name, rows in table.items()},
            None,
            {},
            {},
            (),
            {name: {key: rows[:, 3 + at] for at, key in enumerate(self.parameter)} for name, rows in table.items()},
        )
