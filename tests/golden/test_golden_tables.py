"""What commands say of a table of seconds, of tables of ranks, and of preCICE's profiling files."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_helpers import TEXTS, Golden, check, goldens


@pytest.mark.parametrize("golden", goldens("csv", "inside", "profiling"), ids=str)
def test_text(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(golden, tmp_path, monkeypatch, capsys)


def test_every_text_belongs_to_a_command() -> None:
    tested = goldens("csv", "inside", "profiling", "pulse", "tube", "chain", "killed", "study", "page")
    kept = {path.stem for path in TEXTS.glob("*.txt") if not path.stem.endswith(".new")}
    assert sorted(golden.name for golden in tested) == sorted(golden.name for golden in goldens()) == sorted(kept)
