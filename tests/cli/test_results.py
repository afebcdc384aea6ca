"""How results are written: on the screen, and into a file in place of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import refused
from store_helpers import row, write_store

from precice_lb.cli import main


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    write_store(tmp_path / "stores", [row(w, 0.125, 0.25, 0.125) for w in range(1, 31)])
    return tmp_path / "stores"


@pytest.mark.parametrize("command", ["summary", "check"])
def test_a_file_has_what_the_screen_would_have(
    command: str, stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for format, name in (("table", "out.txt"), ("json", "out.json")):
        assert main([command, str(stores), "--format", format]) == 0
        shown, path = capsys.readouterr().out, tmp_path / "new" / name
        assert main([command, str(stores), "--output", str(path)]) == 0
        assert capsys.readouterr().out == f"wrote {path}\n"
        assert path.read_text() == shown
        assert main([command, str(stores), "--format", format, "-o", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out").read_text() == shown
        capsys.readouterr()
    for place in (stores, tmp_path / "out.csv"):
        expected = f"--output: expected the name of a file ending in .json or .txt, found {place}"
        assert expected in refused(capsys, command, stores, "-o", place)
