"""A solver that runs on one rank only: seen by its first failed run, said with the key, never tried with more again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from calibrate_helpers import COPIES, changed, make_stores, run_study, runs_of, write_case, write_study
from record_helpers import environment, finish, start
from store_helpers import row

from precice_lb.campaign import RunRecord, read_study
from precice_lb.campaign.evidence import cause_of, wrong_size
from precice_lb.cli import main
from precice_lb.layout import Layout

# As libprecice does where a participant gives rank 0 of 1 to each of several ranks.
REFUSED = (
    "---[precice] ERROR: The solver process size given in the preCICE interface constructor(1) does not match the size "
    "of the passed MPI communicator (2)."
)
BEGIN = """\
import os, sys
if int(os.environ["PMI_SIZE"]) > 1 and sys.argv[1] in {names!r}:
    sys.exit({refused!r})
"""

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]


def study(tmp_path: Path, *names: str, runs: str = "maximum = 4") -> Path:
    """Write a study whose participants of these names can only be serial."""
    work = {"Left": 0.2, "Right": 0.1}
    make_stores(tmp_path / "made", 3, lambda name, size: [row(w, work[name] / size, 0.2, 0.1) for w in range(1, 8)])
    path = write_study(tmp_path, solver=BEGIN.format(names=names, refused=REFUSED) + COPIES, runs=runs)
    return changed(path, *((f"solver.py {name}", f"solver.py {name} {tmp_path}/made") for name in work))


def test_it_is_never_tried_with_more_ranks_again(tmp_path: Path) -> None:
    path = study(tmp_path, "Right", runs="maximum = 4\nretries = 2")
    result = run_study(path)
    first, *others = result.runs
    assert (first.split, first.outcome, first.serial) == ({"Left": 2, "Right": 2}, "failed", ["Right"])
    assert "maximum_ranks = 1" in first.reasons[0]
    assert first.reasons[0].startswith("Right: ")
    assert not any(REFUSED in reason for reason in first.reasons)
    assert {(run.outcome, run.split["Right"]) for run in others} == {("finished", 1)}
    assert len({run.split["Left"] for run in others}) > 1
    # What the campaign is recommended from knows it, too.
    assert result.asked is not None
    assert result.asked.demands().maximum == {"Right": 1}


def test_where_one_split_is_left_it_is_the_answer_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = study(tmp_path, "Left", "Right")
    assert main(["calibrate", str(path)]) == 0
    failed, well = runs_of(tmp_path / "study-campaign")
    assert (sorted(failed.serial), well.outcome, well.split) == (["Left", "Right"], "finished", {"Left": 1, "Right": 1})
    out, err = capsys.readouterr()
    assert "only one split is possible" in err
    assert "Left" in out


def test_splits_of_the_study_that_it_cannot_have_are_left_out(tmp_path: Path) -> None:
    path = study(tmp_path, "Right", runs="splits = [{Left=1,Right=2}, {Left=1,Right=3}, {Left=2,Right=1}]")
    result = run_study(path)
    assert [run.split["Right"] for run in result.runs] == [2, 1]


def test_a_fixed_number_of_threads_leaves_one_rank_of_them(tmp_path: Path) -> None:
    path = write_study(tmp_path, right="threads = 2")
    failed = RunRecord(1, "001", {}, "", "", "", outcome="failed", serial=["Right", "Left"])
    narrowed = read_study(path).narrowed([failed])
    assert narrowed.bounds == {"Left": (1, 1), "Right": (2, 2)}
    failed.versions = {"Left": "cpu"}
    assert read_study(path).narrowed([failed]).bounds == {"Left": (1, 4), "Right": (2, 2)}


@pytest.mark.parametrize(
    ("line", "is_serial"),
    [
        (REFUSED, True),
        ("RuntimeError: index does not match the rank of the passed communicator", True),
        ("precice-lb: warning: Right starts preCICE as rank 0 of 1 on each of 4 ranks: it", True),
        ("The matrix size does not match the size of the vector", False),
    ],
)  # fmt: skip
def test_what_says_so(line: str, is_serial: bool, tmp_path: Path) -> None:
    log = tmp_path / "Right.log"
    log.write_text(f"begin\n{line}\nend\n")
    assert bool(cause_of(log, 4)) == is_serial
    assert cause_of(log, 1) is None
    # Each rank was a run of its own that ended well.
    (tmp_path / "stores").mkdir()
    (tmp_path / "stores" / "Right-0-1.h5").touch()
    said = str(wrong_size(tmp_path, {"Right": Layout(4)}))
    assert ("maximum_ranks = 1" in said) == is_serial
    assert ("its MPI says 1" in said) == (not is_serial)


def test_the_recorder_says_so_once(tmp_path: Path, mpiexec: str) -> None:
    write_case(tmp_path, "import precice\nprecice.Participant('Right', 'precice-config.xml', 0, 1)\n")
    command = [mpiexec, "-n", "3", sys.executable, "-m", "precice_lb", "run", "solver.py"]
    variables = {"Right": environment(PRECICE_LB_BACKEND="embedded")}
    done = finish(start(tmp_path / "case", {"Right": command}, variables))["Right"]
    said = [line for line in done.stderr.splitlines() if "rank 0 of 1" in line]
    assert len(said) == 1
    assert said[0].startswith("precice-lb: warning: Right starts preCICE as rank 0 of 1 on each of 3 ranks")
    assert "maximum_ranks = 1" in said[0]
