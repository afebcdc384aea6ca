"""The figures of the paper, drawn from results of benchmarks that are there already."""

from __future__ import annotations

import json
import re
from pathlib import Path

import paper_figures
import pytest

ROOT = Path(__file__).resolve().parents[2]


def _described(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": 0.5 * mean, "high": 2 * mean}


@pytest.mark.slow("draws figures of a paper")
def test_figures_are_drawn_from_kept_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_argv: list[str]) -> None:
        raise AssertionError("a benchmark whose results are there was run")

    monkeypatch.setattr(paper_figures.real_curves, "main", never)
    learners = {name: {"regret_percent": [_described(mean) for mean in (1, 3, 5)]} for name in ("bayes", "equal")}
    (tmp_path / "regret.json").write_text(json.dumps({"learners": learners}))

    paper_figures.main(["--results", str(tmp_path / "regret.json"), "--output", str(tmp_path / "paper")])

    for name in ("regret.png", "split.png"):
        assert (tmp_path / "paper" / name).read_bytes().startswith(b"\x89PNG")
        assert f"]({name})" in (ROOT / "docs" / "paper" / "paper.md").read_text(encoding="utf-8")


def test_what_the_paper_cites_is_in_its_bibliography() -> None:
    paper = ROOT / "docs" / "paper"
    cited = set(re.findall(r"@(\w+)", (paper / "paper.md").read_text(encoding="utf-8")))
    known = set(re.findall(r"^@\w+\{(\w+),$", (paper / "paper.bib").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert cited
    assert cited == known
