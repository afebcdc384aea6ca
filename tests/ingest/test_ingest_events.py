"""Event logs of preCICE 1.3 to 2.5: planted times are recovered, damage is refused with one line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingest_helpers import Rank, csv_log, json_log, own_milliseconds, read_or_refusal, refused, steady, write

from precice_lb.dataset import Measurements
from precice_lb.dataset.series import spread_of
from precice_lb.exceptions import DataError
from precice_lb.ingest import import_measurements

WRITERS = {".log": csv_log, ".json": json_log}
PLANTED = [
    Rank(
        [90, 30, 34, 31, 40, 29], receive=[9, 8, 9, 3, 2, 8], mapping=[4, 4, 6, 4, 4, 5], accelerate=[2, 1, 2, 2, 3, 2]
    ),
    Rank(
        [80, 25, 44, 21, 30, 39], receive=[9, 8, 1, 3, 2, 0], mapping=[4, 3, 2, 4, 3, 2], accelerate=[2, 1, 2, 2, 3, 2]
    ),
]


def _import(path: Path, **options: Any) -> Measurements:
    return import_measurements("precice-events", [path], **options)


@pytest.mark.parametrize("suffix", WRITERS)
def test_planted_costs_are_recovered(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"precice-Inner-events{suffix}", WRITERS[suffix](PLANTED))
    found = _import(path)
    windows = np.max([own_milliseconds(rank) for rank in PLANTED], axis=0) / 1000
    np.testing.assert_allclose(found.samples["Inner"], [[2, np.median(windows)]])
    np.testing.assert_allclose(found.spread["Inner"], spread_of(windows).error * np.median(windows))
    assert found.iterations == {}
    assert found.sources == (str(path),)


@pytest.mark.parametrize("suffix", WRITERS)
def test_ranks_that_never_receive_do_not_count_unless_asked_for(tmp_path: Path, suffix: str) -> None:
    # Without interface vertices the wait of 60 ms for the partner is in the solver's next collective.
    ranks = [Rank([30] * 6, receive=[60] * 6, mapping=[7] * 6), Rank([97] * 6), Rank([20] * 6, receive=[70] * 6)]
    path = write(tmp_path / f"precice-Inner-events{suffix}", WRITERS[suffix](ranks))
    np.testing.assert_allclose(_import(path).samples["Inner"], [[3, 0.037]])
    np.testing.assert_allclose(_import(path, every_rank=True).samples["Inner"], [[3, 0.097]])


def test_all_ranks_count_where_none_receives(tmp_path: Path) -> None:
    path = write(tmp_path / "precice-A-events.log", csv_log([Rank([5] * 4), Rank([8] * 4)]))
    np.testing.assert_allclose(_import(path).samples["A"], [[2, 0.008]])


def test_warm_up_windows_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "precice-A-events.json", json_log([Rank([9, 700, 800, 5, 6])]))
    np.testing.assert_allclose(_import(path, warmup=3).samples["A"], [[1, 0.0055]])
    refused(lambda: _import(path, warmup=0), "at least 1 time window")
    refused(lambda: _import(path, warmup=5), "after a warm-up of 5", "found 5 in all")


def test_steady_windows_are_known_no_better_than_the_clock(tmp_path: Path) -> None:
    path = write(tmp_path / "precice-A-events.json", json_log(steady(20)))
    np.testing.assert_allclose(_import(path).spread["A"], 1e-3 / math.sqrt(12))


def test_an_iterations_log_groups_advances_into_windows(tmp_path: Path) -> None:
    path = write(tmp_path / "precice-A-events.json", json_log([Rank([1, 2, 3, 10, 20, 30, 40])]))
    rows = ["Timesteps  Total_Iterations  Iterations  Convergence", "1 2 2 1", "2 4 2 1", "3 7 3 1"]
    log = write(tmp_path / "precice-A-iterations.log", "\n".join(rows) + "\n")
    found = _import(path)
    np.testing.assert_allclose(found.samples["A"], [[1, np.median([3 + 10, 20 + 30 + 40]) / 1000]])
    assert found.iterations == {"A": 2.5}
    write(log, "\n".join(rows[:-1]) + "\n")
    refused(lambda: _import(path), str(log), "4 iterations in all", "7 advance calls")
    np.testing.assert_allclose(_import(path, advances_per_window=1, warmup=5).samples["A"], [[1, 0.035]])
    write(log, "\n".join([rows[0], "1 2 x 1"]))
    refused(lambda: _import(path), str(log), "line 2")
    write(log, "something else")
    refused(lambda: _import(path), str(log), "columns TimeWindow, Iterations")


def test_subcycles_are_added_up(tmp_path: Path) -> None:
    path = write(tmp_path / "precice-A-events.log", csv_log([Rank([1, 2, 30, 4, 50, 6])]))
    np.testing.assert_allclose(_import(path, advances_per_window=2).samples["A"], [[1, 0.045]])
    assert _import(path, advances_per_window=2).iterations == {}
    refused(lambda: _import(path, advances_per_window=4), "whole time windows of 4", "6 calls")
    refused(lambda: _import(path, advances_per_window=0), "at least 1")


def test_every_run_of_a_log_makes_a_row(tmp_path: Path) -> None:
    first, second = csv_log(steady(30)), csv_log(steady(20) * 4, "2018-11-20T12:00:00.123", header=False)
    path = write(tmp_path / "precice-A-events.log", first + second)
    np.testing.assert_allclose(_import(path).samples["A"], [[1, 0.030], [4, 0.020]])
    write(tmp_path / "precice-A-iterations.log", "Timesteps Iterations\n1 5\n")
    refused(lambda: _import(path), "2 runs in one log")


def test_a_run_given_twice_is_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "a" / "precice-A-events.json", json_log(steady(30)))
    two = write(tmp_path / "b" / "precice-A-events.json", json_log(steady(30)))
    refused(lambda: import_measurements("precice-events", [one, two]), str(one), str(two), "once")


def test_the_participant_is_given_where_the_name_does_not_say_it(tmp_path: Path) -> None:
    path = write(tmp_path / "inner.log", csv_log(steady(30)))
    refused(lambda: _import(path), str(path), "participant")
    assert list(_import(path, participant="Inner").samples) == ["Inner"]


def test_files_beside_add_parameters(tmp_path: Path) -> None:
    path = write(tmp_path / "precice-A-events.log", csv_log(steady(30)))
    header = write(tmp_path / "header.lua", " nElems = 3584\n")
    ini = write(tmp_path / "params.ini", "[DEFAULT]\nclock_rate=2600\nmachine=a b\n")
    found = _import(path, mesh_header=header, parameters=ini).parameters["A"]
    assert {key: values.tolist() for key, values in found.items()} == {
        "nElems": [3584.0],
        "clock_rate": [2600.0],
        "machine": ["a b"],
    }


def _edited(change: Callable[[Any], object]) -> str:
    document = json.loads(json_log(steady(9)))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("e.log", "", ["no event"]),
        ("e.log", "a,b,c\n1,2,3\n", ["line 1", "RunTimestamp", "'a,b,c'"]),
        ("e.log", "RunTimestamp,Name,Rank,Timestamp,State\n", ["1.1 or 1.2", "does not time the solver"]),
        ("e.log", "Timestamp,RunName,Rank,Name,Count,Total,Min,Max,Avg,T%,Data\n", ["totals per event", "-events.log"]),
        ("e.log", csv_log(steady(9)).replace(",0,45", ",x,45", 1), ["line 2", "rank from 0", "'x'"]),
        ("e.log", csv_log(steady(9)).replace("525,1\n", "525,7\n", 1), ["line 2", "state", "'4569525,7'"]),
        ("e.log", csv_log(steady(9)).replace("4569525,1\n", "4569525.5,1\n", 1), ["line 2", "whole milliseconds"]),
        ("e.log", csv_log(steady(9)) + "2018,,advance,0,12\n", ["expected 6 columns, found 5"]),
        ("e.log", csv_log(steady(9)) + "2018-11-20T11:25:15. 94,,advance,3,1,1\n", ["rank 1", "cut short"]),
        ("e.log", csv_log(steady(9)) + "2018-11-20T11:25:15. 94,,advance,0,1,1\n", ["advance of rank 0", "to stop"]),
        ("e.log", csv_log(steady(9)).replace("solver.advance", "solver.other"), ["as many events", "found 5 and 0"]),
        ("e.log", csv_log([Rank([9] * 4), Rank([9] * 5)]), ["all ranks", "4 calls of rank 0 and 5 of rank 1"]),
        ("e.log", csv_log(steady(0)), ["0 milliseconds", "finer clock"]),
        ("e.log", b"\xff\xfe\x00", ["UTF-8"]),
        ("e.json", "{", ["damaged JSON", "cut short"]),
        ("e.json", "[" * 100_000, ["damaged JSON"]),
        ("e.json", "[]", ['"Ranks"', "found nothing"]),
        ("e.json", '{"Ranks": []}', ['"Ranks"']),
        ("e.json", '{"Ranks": [{"StateChanges": 3}]}', ['"StateChanges" for rank 0', "found 3"]),
        ("e.json", '{"Ranks": [{"StateChanges": [{"Name": "a"}]}]}', ["Timestamp"]),
        ("e.json", '{"Ranks": [{"StateChanges": []}]}', ["found 0 and 0"]),
        ("e.json", _edited(lambda d: d["Ranks"][0]["StateChanges"][0].update(State=True)), ["State"]),
        ("e.json", _edited(lambda d: d["Ranks"][0]["StateChanges"][0].update(Timestamp=10**400)), ["Timestamp"]),
        ("e.json", _edited(lambda d: d["Ranks"][0]["StateChanges"][3].update(Timestamp=10**6)), ["to rise"]),
    ],
)
def test_damaged_logs_are_refused(tmp_path: Path, name: str, text: str | bytes, words: list[str]) -> None:
    path = write(tmp_path / name, text)
    refused(lambda: _import(path, participant="A"), str(path), *words)


def test_events_out_of_turn_are_refused(tmp_path: Path) -> None:
    def swap(document: Any) -> None:
        for change in document["Ranks"][0]["StateChanges"]:
            if change["Name"] == "solver.advance":
                change["Timestamp"] -= 500

    path = write(tmp_path / "precice-A-events.json", _edited(swap))
    refused(lambda: _import(path), "take turns")


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_log_cut_short_anywhere_is_refused_or_reads_the_same(tmp_path: Path, suffix: str) -> None:
    text = WRITERS[suffix](PLANTED)
    path = tmp_path / f"precice-A-events{suffix}"
    whole = _import(write(path, text)).samples["A"]
    read = 0
    for end in range(0, len(text), 97):
        try:
            np.testing.assert_array_equal(_import(write(path, text[:end])).samples["A"], whole)
            read += 1
        except DataError:
            continue
    assert read * 97 < len(text) / 10


@given(data=st.data())
@pytest.mark.parametrize("suffix", WRITERS)
def test_random_damage_is_refused_in_one_line_or_read(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(WRITERS[suffix](PLANTED[:1]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(begin, min(begin + 8, len(content))))
        content[begin:end] = data.draw(st.binary(max_size=4) | st.sampled_from([b"-", b"9" * 400, b",", b"\n", b"1e9"]))
    path = write(tmp_path_factory.mktemp("damage") / f"precice-A-events{suffix}", bytes(content))
    found = read_or_refusal(lambda: _import(path))
    assert isinstance(found, str) or (found.samples["A"] > 0).all()
