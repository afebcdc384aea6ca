"""The adaptive design of a study with versions: which of them to measure next, and where."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from precice_lb.calibrate.design import Proposal, Split
from precice_lb.calibrate.design_adaptive import INITIAL_RUNS, CalibrationDesign
from precice_lb.names import without_versions

# A version whose best split is faster than the best one's with less probability is not measured any further.
LEAST_CHANCE = 0.05


class _OfOne(Protocol):
    """The design for one combination of versions."""

    design: CalibrationDesign | None
    conclusion: str | None

    @property
    def total(self) -> int: ...

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None: ...


class VersionsDesign:
    """Measures every combination at its first splits, then those that may be the best one, the likeliest first."""

    def __init__(self, designs: Sequence[tuple[Mapping[str, str], _OfOne]]) -> None:
        self._designs = designs
        #: Why the last answer was None.
        self.conclusion: str | None = None

    @property
    def total(self) -> int:
        """Largest number of runs."""
        return self._designs[0][1].total

    def ask(self, tried: Collection[Mapping[str, int]]) -> Proposal | None:
        """Return the split and versions whose measurement is worth most, or None; keys of ``tried`` name versions."""
        if len(tried) >= self.total:
            self.conclusion = f"{len(tried)} runs made, as many as runs.maximum allows"
            return None
        own: dict[int, list[Split]] = {at: [] for at in range(len(self._designs))}
        for split in tried:
            ranks, ran = without_versions(split)
            for at, (versions, _) in enumerate(self._designs):
                if ran == versions:
                    own[at].append(ranks)
        answers: dict[int, Proposal | None] = {}
        for at, (versions, design) in enumerate(self._designs):
            answers[at] = answer = design.ask(own[at])
            if answer is not None and len(own[at]) < INITIAL_RUNS:
                return _named(answer, versions)
        told = {}
        for at, (_, design) in enumerate(self._designs):
            if design.design is not None and design.design.runs:
                told[at] = design.design.recommended_windows
        order = sorted(told, key=lambda at: float(told[at].mean()))
        reasons = []
        for at in order:
            versions, design = self._designs[at]
            chance = float(np.mean(told[at] < told[order[0]])) if at != order[0] else 1.0
            if chance < LEAST_CHANCE:
                reasons.append(f"{_text(versions)} is faster with a probability of {100 * chance:.0f} % only")
            elif (answer := answers[at]) is not None:
                return _named(answer, versions)
            else:
                reasons.append(f"{_text(versions)}: {design.conclusion}")
        self.conclusion = "; ".join(reasons) or "every split that comes into question failed"
        return None


def _named(proposal: Proposal, versions: Mapping[str, str]) -> Proposal:
    return replace(proposal, versions=dict(versions), reason=f"{_text(versions)}: {proposal.reason}")


def _text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
