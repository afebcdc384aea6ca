"""Scores on disk, so that a long simulation can be interrupted, and contestants added or run anew one by one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from regret_parts.decide import Score

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
        """Where the scores of a contestant are."""
        ranks = "-".join(map(str, budgets)) + (f"x{block}" if block > 1 else "")
        return self.directory / f"{name}_{family}_{points}_{noise:g}_{ranks}_{seed}.npz"

    def load(self, path: Path) -> list[Score]:
        """Scores of one contestant, of the pairs 0, 1, … as far as they are known."""
        if not path.exists():
            return []
        with np.load(path) as data:
            return [Score(*row) for row in zip(*(data[key] for key in Score._fields), strict=True)]

    def save(self, path: Path, scores: list[Score]) -> None:
        """Write the scores of the pairs 0, 1, …; who reads meanwhile finds the file as it was, or as it will be."""
        draft = path.with_suffix(".part.npz")
        columns = zip(Score._fields, map(np.array, zip(*scores, strict=True)), strict=True)
        np.savez_compressed(draft, **dict(columns))
        os.replace(draft, path)
