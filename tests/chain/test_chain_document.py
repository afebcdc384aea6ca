"""``chain.json``: what is written is read again, and what was damaged is refused in one line."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from chain_view_helpers import chain_of

from precice_lb.chain.document import CHAIN_FILE, read_chain
from precice_lb.exceptions import CalibrationError

SPLITS = [{"Inner": 4, "Outer": 12}, {"Inner": 6, "Outer": 10}, {"Inner": 6, "Outer": 10}]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read_chain(tmp_path) is None
    assert read_chain(tmp_path / "nothing") is None
    for chain in (chain_of([], following=SPLITS[0]), chain_of(SPLITS, following={"Inner": 5, "Outer": 11})):
        chain.save(tmp_path)
        assert read_chain(tmp_path) == chain
        assert chain.participants == ("Inner", "Outer")
    assert [path.name for path in tmp_path.iterdir()] == [CHAIN_FILE]
    # Keys of a newer writer are passed over.
    raw = json.loads((tmp_path / CHAIN_FILE).read_text())
    raw["host"] = raw["segments"][0]["host"] = "a"
    (tmp_path / CHAIN_FILE).write_text(json.dumps(raw))
    assert read_chain(tmp_path) == chain


def test_what_was_not_measured_is_null_and_nan(tmp_path: Path) -> None:
    chain = chain_of(SPLITS)
    unknown = {"Inner": math.nan, "Outer": 0.5}
    last = dataclasses.replace(chain.segments[-1], wait_share=unknown, border_seconds=math.nan)
    dataclasses.replace(chain, segments=[*chain.segments[:-1], last]).save(tmp_path)
    assert "NaN" not in (tmp_path / CHAIN_FILE).read_text()
    again = read_chain(tmp_path)
    assert again is not None
    assert repr(again.segments[-1]) == repr(last)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda raw: raw.update(format="other"), 'expected "format": "precice-lb-chain"'),
        (lambda raw: raw.update(format_version=2), "format version 2 is not known, only 1"),
        (lambda raw: raw.pop("study"), "damaged record of a chain: study"),
        (lambda raw: raw.update(segments={}), "damaged record of a chain: segments"),
        (lambda raw: raw["segments"][1].update(kind="guess"), "segments[2].kind"),
        (lambda raw: raw["segments"][1].update(split={}), "segments[2].split"),
        (lambda raw: raw["segments"][1]["split"].update(Inner=0), "segments[2].split.Inner"),
        (lambda raw: raw["segments"][1].update(window_seconds="fast"), "segments[2].window_seconds"),
        (
            lambda raw: raw["segments"][1]["split"].update(Third=1),
            "segments[2].split: expected Inner, Outer, found Inn",
        ),
        (
            lambda raw: raw["segments"][1]["seconds"].clear(),
            "segments[2].seconds: expected Inner, Outer, found none",
        ),
        (
            lambda raw: raw["segments"].pop(0),
            "segments[1]: its number and first window: expected (1, 0), found (2, 10)",
        ),
        (lambda raw: raw.update(windows_done=29), "expected (30, True), found (29, True)"),
        (lambda raw: raw.update(total_windows=29), "expected (30, True), found (30, False)"),
        (lambda raw: raw.update(next={"split": {"Inner": 1}}), "next.kind"),
        (
            lambda raw: raw.update(next={"split": {"Inner": 1}, "kind": "stay", "decision": ""}),
            "next.split: expected Inner, Outer, found Inner",
        ),
    ],
)
def test_damage_is_told_in_one_line(tmp_path: Path, change: object, expected: str) -> None:
    chain_of(SPLITS).save(tmp_path)
    path = tmp_path / CHAIN_FILE
    raw = json.loads(path.read_text())
    change(raw)  # type: ignore[operator]
    path.write_text(json.dumps(raw))
    with pytest.raises(CalibrationError) as caught:
        read_chain(tmp_path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    chain_of(SPLITS[:1]).save(tmp_path)
    path = tmp_path / CHAIN_FILE
    text = path.read_text().rstrip()
    for length in range(len(text)):
        path.write_text(text[:length])
        with pytest.raises(CalibrationError, match="cannot be read"):
            read_chain(tmp_path)
