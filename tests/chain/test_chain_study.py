"""Keys of a chain in a study file, what its windows are, and that everything else takes no notice of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION, changed, write_case, write_study
from precice_xml_helpers import configuration, scheme
from segment_helpers import CHAIN

from precice_lb.campaign import Study, read_study
from precice_lb.case import parse_configuration
from precice_lb.chain.segments import ChainWindows
from precice_lb.chain.steps import forgotten_state
from precice_lb.exceptions import StudyError


def study_of(directory: Path, chain: str = CHAIN, *, left: str = "", edits: tuple[tuple[str, str], ...] = ()) -> Study:
    changed(write_case(directory) / "precice-config.xml", *edits)
    return read_study(write_study(directory, extra=chain, left=left))


def test_a_campaign_s_identity_takes_no_notice_of_a_chain(tmp_path: Path) -> None:
    with_chain = study_of(tmp_path, left='collect = ["true {segment} {start_time}"]')
    assert with_chain.chain is not None
    assert with_chain.chain.start == {"Left": 1, "Right": 3}
    without = read_study(write_study(tmp_path))
    assert without.chain is None
    assert with_chain.identity() == without.identity()


@pytest.mark.parametrize(
    ("edits", "total"),
    [
        ((), 1000),
        ((('windows value="1000"', 'windows value="7"'),), 7),
        ((("<max-time-windows", "<max-time"), ('size value="1"', 'size value="0.1"')), 10000),
        ((('<max-time-windows value="1000"', '<max-time value="0.3"'), ('size value="1"', 'size value="0.1"')), 3),
        ((('<max-time-windows value="1000"', '<max-time value="3.2"'),), 4),
        ((('value="1000" />', 'value="50" /><max-time value="20" />'),), 20),
    ],
)
def test_a_chain_is_as_long_as_the_configuration_says(
    tmp_path: Path, edits: tuple[tuple[str, str], ...], total: int
) -> None:
    assert ChainWindows(study_of(tmp_path, CHAIN.replace("total = 12\n", ""), edits=edits)).total == total


def test_the_longest_windows_are_counted(tmp_path: Path) -> None:
    (scheme_of_both,) = re.findall("<coupling-scheme.*</coupling-scheme:parallel-explicit>", CONFIGURATION, re.DOTALL)
    shorter = scheme_of_both.replace('<max-time-windows value="1000"', '<max-time value="100"')
    second = shorter.replace('size value="1"', 'size value="0.25"')
    edits = ((scheme_of_both, shorter + second),)
    windows = ChainWindows(study_of(tmp_path, CHAIN.replace("total = 12\n", ""), edits=edits))
    assert (windows.total, windows.start_time(3)) == (100, "3")


@pytest.mark.parametrize(
    ("size", "window", "expected"),
    [
        ("0.1", 0, "0"),
        ("0.1", 3, "0.3"),
        ("1", 4, "4"),
        ("1e-5", 7, "7e-05"),
        ("0.7", 100, "70"),
        ("2.5e-3", 3, "0.0075"),
    ],
)
def test_a_start_time_is_written_without_rounding(tmp_path: Path, size: str, window: int, expected: str) -> None:
    study = study_of(tmp_path, edits=(('size value="1"', f'size value="{size}"'),))
    assert ChainWindows(study).start_time(window) == expected


def test_what_has_no_end_or_no_size_of_windows_is_no_chain(tmp_path: Path) -> None:
    from_first = ('<time-window-size value="1" />', '<time-window-size method="first-participant" />')
    edits = (from_first, ("coupling-scheme:parallel", "coupling-scheme:serial"))
    with pytest.raises(StudyError, match="expected a configuration with a time-window-size, found one whose windows"):
        ChainWindows(study_of(tmp_path / "unknown", edits=edits))
    limit = ('<max-time-windows value="1000" />', '<max-time value="10" />')
    with pytest.raises(StudyError, match=r"chain\.total: expected the number of time windows of the whole chain"):
        ChainWindows(study_of(tmp_path / "endless", CHAIN.replace("total = 12\n", ""), edits=(*edits, limit)))


ZERO_A, ZERO_B = "A reads FromB as zero", "B reads FromA as zero"
IQN = '<acceleration:IQN-ILS><data name="FromA" mesh="A-Mesh" /></acceleration:IQN-ILS>'


@pytest.mark.parametrize(
    ("kind", "body", "initialized", "expected"),
    [
        ("serial-explicit", "", "", ZERO_A),
        ("serial-implicit", "", "AB", ZERO_A),
        ("serial-implicit", "", "BA", ""),
        ("parallel-explicit", "", "", f"{ZERO_B}, {ZERO_A}"),
        ("parallel-implicit", IQN, "AB", f"{ZERO_A}, IQN-ILS has no history"),
        ("serial-implicit", IQN, "BA", "IQN-ILS has no history"),
        ("multi", "", "BA", ZERO_B),
    ],
)
def test_what_schemes_forget_at_a_border_is_said(kind: str, body: str, initialized: str, expected: str) -> None:
    text = configuration("AB", [scheme(kind, "AB", body=body)])
    if initialized:
        way = 'from="{}" to="{}"'.format(*initialized)
        text = text.replace(way, f'{way} initialize="true"')
    assert forgotten_state(parse_configuration(text)) == expected
