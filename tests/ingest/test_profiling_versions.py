"""Profiling files of all preCICE 3: JSON of 3.0 to 3.2, what is not in them, broken nesting, files without a case."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiling_helpers import case, event_totals, imported, report, summaries, to_json
from report_helpers import refused

from precice_lb.cli import main
from precice_lb.ingest.profiling import import_profiling, read_profile
from precice_lb.store.columns import NOT_MEASURED

EXPLICIT = """<precice-configuration><data:scalar name="D"/><mesh name="M" dimensions="2"><use-data name="D"/></mesh>
<participant name="A"><provide-mesh name="M"/><write-data name="D" mesh="M"/></participant>
<participant name="B"><receive-mesh name="M" from="A"/><read-data name="D" mesh="M"/></participant>
<m2n:sockets acceptor="A" connector="B"/><coupling-scheme:serial-explicit><participants first="A" second="B"/>
<max-time-windows value="4"/><time-window-size value="1"/><exchange data="D" mesh="M" from="A" to="B"/>
</coupling-scheme:serial-explicit></precice-configuration>"""


def summed_up(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[dict[str, Any]], str]:
    """Sum up as JSON, and as the text that people read first, in one line."""
    runs = summaries(capsys, *arguments)
    assert main(["summary", *map(str, arguments)]) == 0
    return runs, " ".join(capsys.readouterr().out.split())


def write_json(path: Path, inside: dict[str, tuple[int, int]], calls: int, **meta: str) -> Path:
    """Write a file of B as preCICE 3.0 and 3.1 do in mode ``all``, where names say also what they lie in."""
    names = ["solver.advance", "advance", "finalize", *(f"advance/{name}" for name in inside)]
    lines = [f"N{number}:{name}" for number, name in enumerate(names)]
    for begin in range(1000, 1000 * (calls + 1), 1000):
        lines += [f"B0:{begin - 900}", f"E0:{begin}", f"B1:{begin}"]
        for number, (first, last) in enumerate(inside.values(), 3):
            lines += [f"B{number}:{begin + first}", f"E{number}:{begin + last}"]
        lines.append(f"E1:{begin + 90}")
    lines += [f"B2:{1000 * calls + 200}", f"E2:{1000 * calls + 300}"]
    head = {"name": "B", "rank": "0", "size": "1", "unix_us": "1795624547362416", "tinit": "", **meta}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json("\n".join([json.dumps(head), *lines])))
    return path


def test_files_of_precice_3_1_have_windows_solve_and_advance_but_no_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = report(tmp_path, "profiling-of-3.1")
    (run,), text = summed_up(capsys, source, "--warmup", 0)
    for name, solve in (("Flow", 0.2), ("Shell", 0.05)):
        part = run["participants"][name]
        assert part["windows"] == 12
        assert part["solve"]["mean_seconds"] == pytest.approx(solve, rel=0.05)
        assert part["advance"]["mean_seconds"] > 0
        assert part["wait_seconds"] is None
        assert "waits are not in these files" in part["timing_problems"][0]["problem"]
    assert text.startswith("Run Flow:1 Shell:1: who waits is not known, since waits are not in these files")
    assert "record more" not in text


@pytest.mark.parametrize("scheme", ["serial-explicit", "parallel-implicit"])
def test_mode_all_of_precice_3_1_tells_no_waits_either(tmp_path: Path, scheme: str) -> None:
    inside = {"map.nn.mapData.FromMToN": (1, 6), "m2n.receiveData": (10, 50), "m2n.sendData": (60, 65)}
    iterations = '<max-iterations value="2"/>' if "implicit" in scheme else ""
    text = EXPLICIT.replace("serial-explicit", scheme).replace("<max-time-w", f"{iterations}<max-time-w")
    (tmp_path / "precice-config.xml").write_text(text)
    write_json(tmp_path / "precice-profiling" / "B-0-1.json", inside, 4, mode="all")
    notes = import_profiling([tmp_path], tmp_path / "store").notes
    assert any("B: waits are not in these files" in note for note in notes)
    store = imported(tmp_path / "store")["B-0"]
    assert store.advances["window"].tolist() == [1, 2, 3, 4]
    assert set(store.advances["wait_ns"]) == set(store.advances["mapping_ns"]) == {NOT_MEASURED}
    assert store.names("sections") == ("advance/m2n.receiveData", "advance/m2n.sendData")


def test_calls_that_are_no_multiple_of_the_windows_are_compared_with_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = report(tmp_path, "profiling-of-3.1")
    path = source / "precice-config.xml"
    path.write_text(path.read_text().replace('max-time value="12"', 'max-time value="16"'))
    (run,), text = summed_up(capsys, source)
    assert text.startswith("Run Flow:1 Shell:1: its participants are not compared: Flow by time window, Shell by")
    assert run["imbalance"] is None
    assert "Shell by call of advance" in run["not_compared"]


def test_a_section_that_precice_ends_twice_lasts_until_its_last_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,), _ = summed_up(capsys, report(tmp_path, "sections-ended-twice"))
    section = run["participants"]["Flow"]["sections"]["step"]
    assert section["mean_seconds"] == pytest.approx(0.1003, abs=5e-5)
    assert section["share"] == pytest.approx(0.99, abs=0.005)
    assert run["participants"]["Shell"]["sections"]["step"]["mean_seconds"] == pytest.approx(0.0501, abs=1e-4)


def test_the_last_end_counts_at_every_depth(tmp_path: Path) -> None:
    """A vector of running events that grows from 1 to 2 to 4 ends those that it moves."""
    head = '{"name":"A","rank":0,"size":1,"unix_us":"5","mode":"all","compression":false,"file_version":2}'
    records = "B5:0 B1:10 B2:20 E1:20 B3:30 E1:30 E2:30 E3:40 E2:50 E1:60 E5:70 B6:70 E6:80"
    names = "N1:a N2:b N3:c N5:solver.advance N6:advance"
    path = tmp_path / "A-0-1.txt"
    path.write_text("\n".join([head, *names.split(), *records.split(), ""]))
    totals = event_totals(read_profile(path))
    planted = {"a": (1, 50), "a/b": (1, 30), "a/b/c": (1, 10)}
    assert {name: totals[f"solver.advance/{name}"] for name in planted} == planted


def test_profiles_alone_say_who_waits_and_what_advance_spends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = case(tmp_path / "run", "all-implicit")
    (with_case,), _ = summed_up(capsys, source, "--warmup", 1)
    attached = tmp_path / "attached" / "to" / "a" / "post"
    shutil.copytree(source / "precice-profiling", attached)
    (run,), text = summed_up(capsys, attached, "--warmup", 1)
    # Without logs or configuration a window is what is counted: all participants alike.
    assert run["seconds_per"] == "coupling iteration"
    assert text.startswith("Run A:1 B:1: A waits for other participants 7")
    assert "per coupling iteration" in text
    iterations = with_case["participants"]["A"]["iterations"]["mean"]
    assert set(run["participants"]) == {"A", "B"}
    for name, part in run["participants"].items():
        whole = with_case["participants"][name]
        assert part["solve"]["mean_seconds"] == pytest.approx(whole["solve"]["mean_seconds"] / iterations, rel=0.05)
        assert {"waitAndSendData"} <= part["advance_by_event"].keys()
        spent = sum(quantity["mean_seconds"] for quantity in part["advance_by_event"].values())
        assert 0 < spent <= part["overhead"]["mean_seconds"]


def test_a_configuration_above_that_is_of_another_case_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = report(tmp_path, "sections-ended-twice")
    (source / "precice-config.xml").write_text(EXPLICIT)
    (run,), _ = summed_up(capsys, source)
    assert run["participants"]["Flow"]["windows"] == 11
    assert "expected participant Flow" in refused(capsys, "summary", source, "--config", source / "precice-config.xml")


def test_files_from_before_the_mode_was_in_them_are_read(tmp_path: Path) -> None:
    profile = read_profile(write_json(tmp_path / "B-0-1.json", {"m2n.sendData": (1, 5)}, 3))
    assert profile.header.mode == "unknown"
    np.testing.assert_array_equal(profile.calls["exchanges"], [1, 1, 1])
