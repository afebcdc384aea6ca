"""Reports of mpiP: one of a real run of a C++ solver with preCICE, and what is left of it when it is damaged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from precice_lb.exceptions import DataError
from precice_lb.inside.mpip import read_mpi_report

REPORT = Path(__file__).parents[1] / "data" / "plate-left.2.mpiP"


def _changed(directory: Path, *changes: tuple[str, str]) -> Path:
    text = REPORT.read_text()
    for before, after in changes:
        text, count = re.subn(before, after, text, flags=re.MULTILINE)
        assert count, before
    path = directory / "changed.mpiP"
    path.write_text(text)
    return path


def test_a_real_report_is_read_without_what_precice_spent_in_mpi() -> None:
    """Each of 100 windows, rank 0 slept 5 ms and rank 1 10 ms, before a barrier; then preCICE's own calls."""
    text = REPORT.read_text()
    whole = [float(re.search(rf"^ +{rank} +\S+ +(\S+)", text, re.MULTILINE)[1]) for rank in (0, 1)]  # type: ignore[index]
    seconds = read_mpi_report(REPORT)
    # What the solver's own calls took, by hand: a barrier and two exchanges with the rank beside.
    own = np.zeros(2)
    row = r"^(?:Barrier|Sendrecv) +\d+ +(\d) +100 +\S+ +(\S+) +\S+ +\d+\.\d\d +\d+\.\d\d$"
    for rank, mean in re.findall(row, text, re.MULTILINE):
        own[int(rank)] += 100 * float(mean) * 1e-3
    # Some of preCICE's calls at the start have no name in the report; means have three digits.
    assert own[0] > own[1] + 0.45
    assert (seconds > own * 0.99).all()
    assert (seconds < own + 0.03).all()
    assert (seconds < whole).all()


def test_a_report_without_names_or_without_call_sites_is_taken_as_it_is(tmp_path: Path) -> None:
    nameless = _changed(tmp_path, ("_ZN7precice", "_ZN7another"))
    assert read_mpi_report(nameless) == pytest.approx(WHOLE)
    brief = tmp_path / "brief.mpiP"
    brief.write_text(re.sub(r"(?s)@--- Callsites.*(@--- End)", r"\1", REPORT.read_text()))
    assert read_mpi_report(brief) == pytest.approx(WHOLE)
    people = _changed(tmp_path, (r"_ZN7precice\w+", "precice::impl::some(int, bool)"))
    assert read_mpi_report(people) == pytest.approx(read_mpi_report(REPORT))
    # The solver's own functions may take something of preCICE's.
    taking = _changed(tmp_path, (r"_ZN7precice\w+", "_Z5solveRN7precice11ParticipantE"))
    assert read_mpi_report(taking) == pytest.approx(WHOLE)


WHOLE = [
    float(row.split()[2]) for row in REPORT.read_text().splitlines() if re.match(r" +[01] +\d\.\d+ +\d\.?\d* ", row)
]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.005, 0.1, 0.5, 0.9, 0.998])
def test_a_report_that_is_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    text = REPORT.read_text()
    path = tmp_path / "cut.mpiP"
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(DataError, match=r"cut\.mpiP: expected .*") as caught:
        read_mpi_report(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("changes", "said"), [
    ([(r"^   1 +\d.*\n", "")], "an end of|damaged"),
    ([(r"^   1( +\d\S+ +)\S+", r"   1\1nan")], "seconds that are none"),
    ([(r"^   1( +\d\S+ +)\S+", r"   1\1much")], "could not convert"),
    ([(r"^   0 ", "   7 ")], "tasks 7, 1"),
    ([("^@ mpiP", "@ another")], "begins with '@ mpiP'"),
    ([(r"^(Recv +\d+ +)[01]", r"\g<1>5")], "out of bounds"),
])  # fmt: skip
def test_a_damaged_report_is_refused(tmp_path: Path, changes: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_mpi_report(_changed(tmp_path, *changes))


def test_other_addresses_on_other_ranks_are_refused(tmp_path: Path) -> None:
    """As where addresses are random: rank 0 alone knows names."""
    text = REPORT.read_text()
    (site,) = set(re.findall(r"^Barrier +(\d+)", text, re.MULTILINE))
    path = _changed(tmp_path, (rf"^( *{site} +\d+) .*", r"\1 0x7f6cf9e12a23          [unknown]"))
    with pytest.raises(DataError, match="start the solver by setarch -R"):
        read_mpi_report(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file or directory; check the path"):
        read_mpi_report(tmp_path / "none.mpiP")
