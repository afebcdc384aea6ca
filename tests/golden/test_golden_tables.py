"""What commands say of a table of seconds, of tables of ranks, and of preCICE's profiling files."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from golden_helpers import TEXTS, Golden, check, goldens


@pytest.mark.parametrize("golden", goldens("csv", "inside", "profiling"), ids=str)
def test_text(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(golden, tmp_path, monkeypatch, capsys)


def test_every_text_belongs_to_a_command_that_one_test_runs() -> None:
    run_names: list[str] = []
    for path in sorted(Path(__file__).parent.glob("test_golden_*.py")):
        # The cases that pytest takes from the file, whatever words it asks for.
        (parameters,) = importlib.import_module(path.stem).test_text.pytestmark
        run_names += [golden.name for golden in parameters.args[1]]
    listed_names = [golden.name for golden in goldens()]
    kept_names = [path.stem for path in TEXTS.glob("*.txt") if not path.stem.endswith(".new")]

    assert len(kept_names) > 50
    assert sorted(listed_names) == sorted(kept_names)
    assert sorted(run_names) == sorted(kept_names)
