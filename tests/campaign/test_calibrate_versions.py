"""Which versions of a participant a campaign measures, at which splits, and for how long."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import changed, run_of, write_study

from precice_lb.campaign import CampaignResult, Study, StudyDesign, read_study

VERSIONS = """
[[participants.versions]]
name = "cpu"
command = "python solver.py Left"

[[participants.versions]]
name = "gpu"
command = "python solver.py Left"
"""


def study_with_versions(directory: Path, **words: str) -> Study:
    """Write and read a study of Left, as cpu or as gpu, and of Right."""
    path = write_study(directory, left=VERSIONS, **words)
    return read_study(changed(path, ('command = "python solver.py Left"\ndeg', "deg")))


def test_each_split_of_a_study_is_run_with_every_version(tmp_path: Path) -> None:
    study = study_with_versions(tmp_path, runs="splits = [{Left = 1, Right = 2}, {Left = 2, Right = 1}]")
    state = CampaignResult({}, directory=tmp_path)

    asked = []
    while (proposal := StudyDesign(study, state).ask()) is not None:
        asked.append((proposal.versions["Left"], proposal.split))
        state.runs.append(run_of(len(state.runs) + 1, proposal.split, versions=dict(proposal.versions)))

    assert asked == [
        ("cpu", {"Left": 1, "Right": 2}),
        ("cpu", {"Left": 2, "Right": 1}),
        ("gpu", {"Left": 1, "Right": 2}),
        ("gpu", {"Left": 2, "Right": 1}),
    ]


def test_a_failure_with_one_version_says_nothing_of_the_other(tmp_path: Path) -> None:
    study = study_with_versions(tmp_path, runs="splits = [{Left = 1, Right = 2}]")
    state = CampaignResult({}, directory=tmp_path)
    failed = run_of(1, {"Left": 1, "Right": 2}, "failed", versions={"Left": "cpu"}, blamed=["Left"])
    state.runs.append(failed)

    proposal = StudyDesign(study, state).ask([failed])

    assert proposal is not None
    assert (proposal.versions, proposal.split) == ({"Left": "gpu"}, {"Left": 1, "Right": 2})
    (of_cpu,) = state.failed_splits
    assert of_cpu.is_of({"Left": "cpu"})
    assert not of_cpu.is_of({"Left": "gpu"})


def told_design(window_seconds: list[float], split: dict[str, int] | None) -> Any:
    """Stand for the design of one version, by the windows that its best split may have and by what it asks for."""
    expected = SimpleNamespace(window=lambda _: np.array(window_seconds))
    recommendation = SimpleNamespace(split={}, expected=expected)
    return SimpleNamespace(
        runs=2, reason="as told", ask=lambda: split, needed=dict, recommendation=lambda: recommendation
    )


@pytest.mark.parametrize(
    ("chances", "is_measured"),
    [(5, True), (4, False)],
    ids=["with a probability of 5 %", "with one of 4 %"],
)
def test_a_version_is_measured_as_long_as_it_may_be_the_fastest(
    chances: int, is_measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best split of cpu takes 1 s, and needs no further run; that of gpu is faster in some of 100 cases."""
    study = study_with_versions(tmp_path)
    split = {"Left": 1, "Right": 1}
    designs = {
        "cpu": told_design([1.0] * 100, None),
        "gpu": told_design([0.9] * chances + [2.0] * (100 - chances), split),
    }
    monkeypatch.setattr(StudyDesign, "_design", lambda self, study, versions, failed: (designs[versions["Left"]], ""))
    made = [
        run_of(1 + 2 * place + number, split, versions={"Left": version})
        for place, version in enumerate(designs)
        for number in range(2)
    ]
    design = StudyDesign(study, CampaignResult({}, made, directory=tmp_path))

    proposal = design.ask()

    assert (proposal is not None) == is_measured
    if proposal is not None:
        assert proposal.versions == {"Left": "gpu"}
    else:
        assert design.conclusion == "Left cpu: as told"
