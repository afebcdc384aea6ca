"""What reports say of recorded runs; tests/report/test_charts.py has their figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_helpers import Golden, check, goldens


@pytest.mark.parametrize("golden", goldens("page"), ids=str)
def test_text(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(golden, tmp_path, monkeypatch, capsys)
