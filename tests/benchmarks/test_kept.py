"""The benchmark of kept figures: its answers are still the kept ones, and another answer is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kept import KEPT, compare, main
from kept_parts.measurements import MEASUREMENTS


@pytest.mark.parametrize("name", [name for name in MEASUREMENTS if name.startswith(("partners", "splits"))])
def test_what_is_found_at_small_scale_is_what_is_kept(name: str) -> None:
    kept = json.loads(KEPT.read_text())["small"][name]
    assert compare(MEASUREMENTS[name][0]("small"), kept)[1] == 0


@pytest.mark.mpi
@pytest.mark.slow("each in a process of its own, and solvers")
def test_all_answers_are_the_kept_ones_at_small_scale(capsys: pytest.CaptureFixture[str]) -> None:
    before = KEPT.read_bytes()
    code = main(["--scale", "small"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert printed.splitlines()[-1] == "all answers are the kept ones"
    assert {name for name, (_, repeats) in MEASUREMENTS.items() if f"{name} (load" in printed} == {
        name for name, (_, repeats) in MEASUREMENTS.items() if repeats["small"]
    }
    assert KEPT.read_bytes() == before


def test_another_answer_is_noticed_until_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not in processes of their own.
    monkeypatch.setattr("kept.measure", lambda name, scale: MEASUREMENTS[name][0](scale))
    document = json.loads(KEPT.read_text())
    figures = document["small"]["partners, coordinates"]
    figures["answers"]["B-Mesh, vertices exchanged"] += 1
    figures["costs"]["CPU (s)"] *= 100.0
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(document))
    arguments = ["--scale", "small", "--only", "partners", "--file", str(kept)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed if line.endswith("DIFFERS")] == ["B-Mesh,"]
    assert printed[-1] == "answers that are not the kept ones: 1"
    assert main([*arguments, "--keep"]) == 0
    assert main(arguments) == 0
