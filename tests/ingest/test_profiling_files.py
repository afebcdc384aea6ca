"""Profiling files, parsed by blocks: compared with a parser that goes line by line, and with preCICE's own tool."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiling_helpers import event_totals, to_json

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import files, read_profile
from precice_lb.ingest.profiling.files import parse_block, read_header

DATA = Path(__file__).parents[1] / "data" / "profiling"
SAMPLES = sorted(DATA.glob("*/*.txt"))
HEADER = SAMPLES[0].read_text().splitlines(keepends=True)[0]
GOLDEN = json.loads((DATA / "totals.json").read_text())


def reference_totals(text: str) -> dict[str, tuple[int, int]]:
    """Totals by a stack, line by line; ends without begin are left out."""
    names: dict[str, str] = {}
    stack: list[tuple[str, int]] = []
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    begun: dict[str, int] = {}
    for line in text.splitlines(keepends=True)[1:]:
        if not line.endswith("\n"):
            break
        kind, (number, rest) = line[0], line[1:-1].split(":", 1)
        if kind == "N":
            names[number] = rest
        elif kind != "D" and names.get(number) == "_GLOBAL":
            if kind == "B":
                begun["_GLOBAL"] = int(rest)
            elif begun:
                totals["_GLOBAL"] = (1, int(rest) - begun["_GLOBAL"])
        elif kind == "B":
            stack.append((number, int(rest)))
        elif kind == "E" and stack and stack[-1][0] == number:
            path = "/".join(names.get(event, f"unnamed-{event}") for event, _ in stack)
            count, total = totals[path]
            totals[path] = (count + 1, total + int(rest) - stack.pop()[1])
    return dict(totals)


def to_lzma(data: bytes) -> bytes:
    """Compress the records of a text file as preCICE does where it was built with compression."""
    head, _, records = data.partition(b"\n")
    head = head.replace(b'"compression":false', b'"compression":true')
    return head + b"\n" + lzma.compress(records, format=lzma.FORMAT_ALONE, preset=0)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parts[-2]}-{path.stem}")
def test_totals_agree_with_preCICEs_own_tool_to_the_microsecond(path: Path) -> None:
    profile = read_profile(path)
    assert event_totals(profile) == reference_totals(path.read_text())
    run = path.parts[-2]
    if run != "flush-every-1":
        golden = GOLDEN[run][f"{profile.header.participant}-{profile.header.rank}"]
        assert event_totals(profile) == {name: tuple(values) for name, values in golden.items()}
    assert profile.finalized
    assert len(profile.calls) == event_totals(profile)["advance"][0]
    assert event_totals(profile)["solver.advance"][0] == len(profile.calls) + 1


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parts[-2]}-{path.stem}")
@pytest.mark.parametrize("block", [100, 1 << 20])
def test_lzma_json_and_small_blocks_say_the_same(
    path: Path, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_profile(path)
    monkeypatch.setattr(files, "_BLOCK", block)
    compressed = tmp_path / path.name
    compressed.write_bytes(to_lzma(path.read_bytes()))
    older = tmp_path / f"{path.stem}.json"
    older.write_text(to_json(path.read_text()))
    for each, layout in ((path, "text"), (compressed, "lzma"), (older, "json")):
        profile = read_profile(each)
        assert profile.header.layout == layout
        assert event_totals(profile) == event_totals(expected)
        assert profile.mesh_sizes == expected.mesh_sizes
        np.testing.assert_array_equal(profile.calls, expected.calls)
        np.testing.assert_array_equal(profile.initialize, expected.initialize)
        assert profile.last_us == expected.last_us


def test_calls_add_up_to_the_totals() -> None:
    for path in SAMPLES:
        profile = read_profile(path)
        totals, calls = event_totals(profile), profile.calls
        assert calls["call_us"].sum() == totals["advance"][1]
        assert calls["mapping_us"].sum() == totals.get("advance/mapping", (0, 0))[1]
        outer = "advance/advanceCoupling/"
        waits = sum(totals.get(outer + name, (0, 0))[1] for name in ("waitAndReceiveData", "receiveConvergence"))
        assert calls["wait_us"].sum() == waits
        assert calls["send_us"].sum() == totals[outer + "waitAndSendData"][1]
        children = sum(t for name, (_, t) in totals.items() if name.startswith(outer) and name.count("/") == 2)
        assert calls["steering_us"].sum() == totals["advance/advanceCoupling"][1] - children
        # The last interval of the solver comes after the loop.
        assert 0 < calls["solve_us"].sum() <= totals["solver.advance"][1]
        just_in_time = sum(t for name, (_, t) in totals.items() if re.match(r"solver\.advance/(mapAnd|writeAnd)", name))
        assert 0 <= just_in_time - calls["jit_us"].sum() <= just_in_time / len(calls)


def test_lost_first_records_lose_nothing_else() -> None:
    profile = read_profile(DATA / "flush-every-1/A-0-1.txt")
    assert "construction" not in event_totals(profile)
    assert len(profile.initialize) == 1
    assert profile.mesh_sizes == {"A-Mesh": 12}
    assert (profile.calls["wait_us"] > 20_000).all()


@given(st.sampled_from(SAMPLES), st.sampled_from(["text", "lzma", "json"]), st.floats(0, 1))
def test_a_truncated_file_is_a_valid_prefix_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, path: Path, layout: str, share: float
) -> None:
    whole, data, end = read_profile(path), path.read_bytes(), b"\n"
    if layout == "lzma":
        data = to_lzma(data)
    elif layout == "json":
        data, end = to_json(data.decode()).encode(), b'"events":['
    cut = tmp_path_factory.getbasetemp() / f"{path.stem}{'.json' if layout == 'json' else '.txt'}"
    cut.write_bytes(data[: round(share * len(data))])
    if cut.stat().st_size < data.index(end) + len(end):
        with pytest.raises(DataError, match=r"^[^\n]+$"):
            read_profile(cut)
        return
    profile = read_profile(cut)
    np.testing.assert_array_equal(profile.calls, whole.calls[: len(profile.calls)])
    if layout == "text":
        assert event_totals(profile) == reference_totals(cut.read_text())
    for name, (count, total) in event_totals(profile).items():
        assert count <= event_totals(whole)[name][0]
        assert total <= event_totals(whole)[name][1]


@given(st.lists(st.tuples(st.integers(0, 999_999), st.integers(0, 10**16 - 1)), min_size=1, max_size=30))
def test_numbers_of_any_length_are_read(records: list[tuple[int, int]]) -> None:
    lines = "".join(f"{'BE'[index % 2]}{event}:{time}\n" for index, (event, time) in enumerate(records))
    records_read = parse_block(lines.encode())
    assert list(zip(records_read.events.tolist(), records_read.times.tolist(), strict=True)) == records
    assert records_read.begins.tolist() == [index % 2 == 0 for index in range(len(records))]


@given(st.binary(max_size=25).filter(lambda line: b"\n" not in line))
@example(b"B1:12345678901234567")
@example(b"E1234567:1")
@example(b"B1:")
@example(b"B:1")
@example(b"E1:-1")
@example(b"")
def test_a_line_that_is_no_record_is_refused_and_shown(line: bytes) -> None:
    if re.fullmatch(rb"[BE]\d{1,6}:\d{1,16}|N\s*\d+\s*:.*|D[^:]*:[^:]*:\s*[+-]?\d+\s*:\s*[+-]?\d+\s*", line, re.DOTALL):
        return
    with pytest.raises(DataError, match="expected a record"):
        parse_block(b"B1:5\n" + line + b"\nE1:7\n")


def test_random_nesting_agrees_with_a_stack_also_where_records_are_lost(tmp_path: Path) -> None:
    random.seed(3)
    for case in range(20):
        lines, stack, now = [f"N{event}:event {event}: x\n" for event in range(70)], [], 0
        for _ in range(400):
            now += random.randrange(2_000_000)
            if stack and (random.random() < 0.5 or len(stack) > 20):
                lines.append(f"E{stack.pop()}:{now}\n")
            else:
                stack.append(random.choice([event for event in range(70) if event not in stack]))
                lines.append(f"B{stack[-1]}:{now}\n")
        if case % 2:
            # Lose the first begins, so that their ends stand alone.
            del lines[70 : 70 + case]
        path = tmp_path / "A-0-1.txt"
        path.write_text(HEADER + "".join(lines))
        assert event_totals(read_profile(path)) == reference_totals(path.read_text())


def test_an_end_lost_within_an_event_leaves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "A-0-1.txt"
    path.write_text(HEADER + "N1:advance\nN2:mapping\nB1:10\nB2:20\nE1:50\nB1:60\nB2:65\nE2:70\nE1:90\n")
    profile = read_profile(path)
    assert event_totals(profile) == {"advance": (2, 70), "advance/mapping": (1, 5)}
    assert profile.calls["mapping_us"].tolist() == [0, 5]


META = '{"name":"A","rank":0,"size":1,"unix_us":"1","mode":"all","file_version":2}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "an empty file"),
        ("hello\n", "'hello"),
        ('{"name":"A"}\n', "file_version 1 or 2, found None"),
        (META.replace("2}", "3}"), "found 3"),
        (META.replace('"rank":0', '"rank":1'), "rank below the size"),
        (META.replace('"1"', '"x"'), "unix_us"),
        (META + "B1:2\nB1;2\n", "'B1;2'"),
        ('{\n"meta": 3,\n"events":[', "a header with name, rank below"),
        ("{\n" + "[" * 5000 + '"events":[', "a header with name, rank below"),
    ],
)
def test_what_is_no_profiling_file_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "A-0-1.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_profile(path)
    assert re.fullmatch(f".*{re.escape(str(path))}.*", str(caught.value))


def test_damaged_compression_and_missing_files_are_refused(tmp_path: Path) -> None:
    path, (head, records) = tmp_path / "A-0-1.txt", to_lzma(SAMPLES[0].read_bytes()).split(b"\n", 1)
    path.write_bytes(head + b"\n\xff" + records[1:])
    with pytest.raises(DataError, match="LZMA"):
        read_profile(path)
    with pytest.raises(DataError, match="none that can be read"):
        read_header(tmp_path / "B-0-1.txt")
