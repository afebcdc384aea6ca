"""Partner ranks that other commands write and show beside what they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from archive_helpers import unpack

from precice_lb.cli import main


def test_recommend_writes_the_partners_of_its_split_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pulse = unpack("runs/pulse.zip", tmp_path)
    out = tmp_path / "out"

    assert main(["recommend", str(pulse), "--ranks", "6", "-o", str(out), "--format", "json"]) == 0

    shown = capsys.readouterr()
    split = json.loads(shown.out)["split"]
    assert shown.err.splitlines()[:1] == [f"wrote {out / 'recommendation.json'}"]
    assert {"partners.h5", "partners.json"} <= {path.name for path in out.iterdir()}
    assert set(json.loads((out / "partners.json").read_text())["ranks"]) == set(split)
