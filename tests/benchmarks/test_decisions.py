"""The kept figures of decisions: what a command prints stands beside them, and goes where they are."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import decisions
import pytest

Key = tuple[str, str, str]


def kept_rows(path: Path) -> dict[Key, dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["set"], row["budget"], row["contestant"]): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", ["published-quarter", "unseen"])
def test_figures_of_a_set_replace_those_kept_of_it_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept_rows(decisions.KEPT)
    monkeypatch.setattr(decisions, "KEPT", Path(shutil.copy(decisions.KEPT, tmp_path)))
    decisions.main(["--sets", name, "--pairs", "2", "--write"])
    after = kept_rows(decisions.KEPT)
    assert list(after) == list(before)
    for key, row in after.items():
        measured = key[0] == name and key[2] != "bayes-alone"
        assert row["pairs"] == ({"published-quarter": "2", "unseen": "8"}[name] if measured else before[key]["pairs"])
        assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
        assert bool(row["covered"]) == (key[2] in ("bayes", "oracle"))


def test_every_set_is_kept() -> None:
    assert {name for name, _, _ in kept_rows(decisions.KEPT)} == {*decisions.PUBLISHED, *decisions.RANDOM}
