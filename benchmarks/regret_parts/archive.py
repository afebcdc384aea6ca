"""Outcomes on disk, so that a long simulation can be interrupted, and contestants added or run anew one by one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from regret_parts.contest import Outcome

__all__ = ["Archive"]


class Archive:
    """A directory with one file for each contestant, family, number of points, noise, seed and budgets.

    Whoever changes a contestant removes its files: what is in them is not computed again.

    Parameters
    ----------
    directory
        Made where it does not exist.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def path(
        self, name: str, family: str, points: int, noise: float, budgets: tuple[int, ...], seed: int, block: int
    ) -> Path:
        """Where the outcomes of a contestant are."""
        ranks = "-".join(map(str, budgets)) + (f"x{block}" if block > 1 else "")
        return self.directory / f"{name}_{family}_{points}_{noise:g}_{ranks}_{seed}.npz"

    def load(self, path: Path, name: str) -> list[Outcome]:
        """Outcomes of one contestant, of the pairs 0, 1, … as far as they are known."""
        if not path.exists():
            return []
        with np.load(path) as data:
            regrets, refused, seconds, covered = (data[key] for key in ("regrets", "refused", "seconds", "covered"))
        return [
            Outcome(
                {name: regrets[i]},
                {name: covered[i].astype(bool)} if covered[i].size and (covered[i] >= 0).all() else {},
                {name} if refused[i] else set(),
                {name: float(seconds[i])},
            )
            for i in range(len(regrets))
        ]

    def save(self, path: Path, name: str, outcomes: list[Outcome]) -> None:
        """Write the outcomes of the pairs 0, 1, …; who reads meanwhile finds the file as it was, or as it will be."""
        shape = next((outcome.covered[name].shape for outcome in outcomes if name in outcome.covered), (2, 0))
        # -1 stands for no intervals.
        covered = [outcome.covered[name] if name in outcome.covered else np.full(shape, -1) for outcome in outcomes]
        draft = path.with_suffix(".part.npz")
        np.savez_compressed(
            draft,
            regrets=np.array([outcome.regrets[name] for outcome in outcomes]),
            covered=np.array(covered, dtype=np.int8),
            refused=np.array([name in outcome.refused for outcome in outcomes]),
            seconds=np.array([outcome.seconds[name] for outcome in outcomes]),
        )
        os.replace(draft, path)
