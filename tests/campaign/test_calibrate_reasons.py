"""Why a run failed: the lines of real solvers' logs that say so, not the end of a backtrace."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, run_study, write_study

from precice_lb.campaign import CalibrationDesign, Event, RunRecord, failed_splits
from precice_lb.campaign.evidence import cause_of, lost_partner, reasons
from precice_lb.cli import main
from precice_lb.recommend import FailedSplit, measurements_from_arrays, recommend_split
from precice_lb.recommend.remarks import remarks
from precice_lb.report import Evidence, build_page, console, page_html, rendered, screen_blocks

# Lines that say why are marked: "> " where the whole line is kept, else ">>" before what of it is.
_FILE = Path(__file__).parents[1] / "data" / "solver-logs.txt"
LOGS = dict(part.split("\n", 1) for part in _FILE.read_text(encoding="utf-8").split("=== ")[1:])


@pytest.mark.parametrize("name", LOGS)
def test_lines_that_say_why(tmp_path: Path, name: str) -> None:
    lines = LOGS[name].replace("ESC", "\x1b").splitlines(keepends=True)
    (tmp_path / "log").write_text("".join(line.removeprefix("> ").replace(">>", "") for line in lines))
    plain = [line.replace("\x1b[0m", "").rstrip() for line in lines]
    expected = [line.removeprefix("> ").rpartition(">>")[2] for line in plain if line.startswith("> ") or ">>" in line]
    assert reasons(tmp_path / "log") == expected
    assert reasons(tmp_path / "none") == []


def test_who_only_lost_its_partner_is_not_to_blame() -> None:
    # A rank of the embedded backend whose primary rank was stopped before it had met it.
    assert lost_partner("ConnectionError: the connection was closed")
    assert lost_partner(
        "---[precice]  ERROR: Receiving data from another participant (using sockets) failed with a system error: "
        "read: End of file [asio.misc:2]. This often means that the other participant exited with an error."
    )
    assert lost_partner('precice_lb.exceptions.BackendError: partner "Solid" is gone: "Fluid" lost its connection')
    assert not lost_partner("--> FOAM FATAL ERROR:")


def test_the_launcher_of_another_mpi_is_named_as_the_cause(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for log in (
        'The application appears to have been direct launched using "srun",\nbut OMPI was not built with SLURM\n',
        "Fatal error in internal_Init: error stack:\nMPIR_pmi_init(141).......: PMI_Init returned -1\n",
        "[cli_0]: write_line error; fd=9 buf=:cmd=init pmi_version=1 pmi_subversion=1\n:\n",
        "It looks like orte_init failed for some reason; your parallel process is likely to abort.\n",
        "[n1:01234] PMIX ERROR: UNREACHABLE in file src/mca/ptl/tcp/ptl_tcp.c at line 790\n",
    ):
        path.write_text("starting\n" + log + "ERROR: aborted\n")
        cause = re.sub(r"\(.*?\)", "(why)", reasons(path)[0], count=1)
        assert cause == (
            "its MPI does not understand the launcher (why); use the launcher that belongs to it (launcher.program), "
            'or for srun launcher.mpi, such as "pmi2" or "pmix"'
        )
    path.write_text("MPI_ABORT was invoked on rank 0\nmpiexec noticed that process rank 1 exited\nERROR: no licence\n")
    assert cause_of(path, 2) is None


_numbers = itertools.count(1)


def run(outcome: str, blamed: str = "", **split: int) -> RunRecord:
    """A run of a campaign; ``blamed`` are the participants whose logs say why it failed."""
    name = f"{next(_numbers):03d}"
    record = RunRecord(int(name), name, split, f"runs/{name}", name, "", outcome=outcome)
    record.error = None if outcome == "finished" else "ended with exit code 1"
    record.blamed = blamed.split()
    record.reasons = [f"{who}: FATAL" for who in record.blamed]
    return record


WELL = run("finished", A=1, B=1)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # A combination, unless a log says why alone.
        ([WELL, run("failed", A=2, B=2)], [{"A": 2, "B": 2}]),
        ([WELL, run("failed", "A B", A=2, B=2)], [{"A": 2, "B": 2}]),
        ([run("timeout", A=2, B=2)], [{"A": 2, "B": 2}]),
        ([WELL, run("failed", "B", A=2, B=2)], [{"B": 2}]),
        # Elsewhere as many ranks ended well: it was the combination.
        ([run("finished", A=1, B=2), run("failed", "B", A=2, B=2)], [{"A": 2, "B": 2}]),
        # Beside all numbers of the other that ended well it failed itself.
        ([WELL, run("finished", A=2, B=1), run("failed", A=1, B=2), run("failed", A=2, B=2)], [{"B": 2}]),
        # Where A = 2 never ended well, either may be to blame.
        ([WELL, run("failed", A=1, B=2), run("failed", A=2, B=2)], [{"A": 1, "B": 2}, {"A": 2, "B": 2}]),
        # A later success, and runs of an old study.
        ([run("failed", "A", A=2, B=2), run("finished", A=2, B=2)], []),
        ([run("outdated", "A", A=1, B=2)], []),
        ([run("interrupted", A=2, B=2)], []),
    ],
)
def test_what_failed(runs: list[RunRecord], expected: list[dict[str, int]]) -> None:
    assert [split.ranks for split in failed_splits(runs)] == expected


# As measured with two solvers on two cores: both runs with the second on two ranks failed.
HEATED_PLATE = {"Fluid": [(1, 0.4), (2, 0.21)], "Solid": [(1, 0.41), (1, 0.4)]}


def test_a_failed_split_is_not_recommended_but_shown_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    measured = measurements_from_arrays(HEATED_PLATE)
    reason = "Solid: --> FOAM FATAL ERROR: in <parallel>"
    failed = FailedSplit({"Solid": 2}, ("003", "004"), (reason,))
    free = recommend_split(measured, 4)
    assert free.split == free.alternatives["equal"].split == {"Fluid": 2, "Solid": 2}
    present = recommend_split(measured, 4, failed=[failed], present=free.split)
    # Not 1 + 3 either: nothing is known about more than 2 of Solid.
    assert present.split == {"Fluid": 3, "Solid": 1}
    further = dataclasses.replace(present, split={"Fluid": 1, "Solid": 3})
    near = [[entry.values for entry in remarks(one, []) if entry.code == "failed-near"] for one in (present, further)]
    values = {"participant": "Solid", "layout": "2 ranks", "runs": "2 runs", "side": "more", "chosen": 3}
    assert near == [[], [values]]
    # Fluid worked on both sides of what failed, Solid with more.
    worked = measurements_from_arrays({"Fluid": [(2, 0.2), (6, 0.1)], "Solid": [(4, 0.1), (6, 0.1)]})
    both = [FailedSplit({"Fluid": 4}, ("1",)), FailedSplit({"Solid": 2}, ("2",)), FailedSplit({"Solid": 6}, ("3",))]
    for solid, side in ((1, ["fewer"]), (3, []), (7, [])):
        one = dataclasses.replace(
            present, split={"Fluid": 5, "Solid": solid}, measurements=worked, failed_splits=tuple(both)
        )
        assert [entry.values["side"] for entry in remarks(one, []) if entry.code == "failed-near"] == side
    # The equal split failed: what is compared is the nearest to it that may be.
    assert {kind: other.meant for kind, other in present.alternatives.items()} == {"equal": free.split}
    assert "The present split is not compared: its runs failed." in map(str, present.warnings)
    stated = {"ranks": {"Solid": 2}, "runs": ["003", "004"], "reasons": [reason], "versions": {}}
    assert present.to_dict()["failed_splits"] == [stated]
    console().print(rendered(screen_blocks(present, {name: name for name in present.split}, verbose=True)))
    page = page_html(build_page(Evidence(present))).replace("\xa0", " ")
    for text in (capsys.readouterr().out.replace("\xa0", " "), page):
        assert all(w in text for w in ("Failed, and so not recommended", "FATAL ERROR", "Solid 2 ranks, whatever"))
    # One split alone, and every split.
    again = recommend_split(measured, 4, failed=[free.split])
    assert again.split != free.split
    assert 1 in again.split.values()


def seconds_of(split: dict[str, int]) -> dict[str, float]:
    """Return the compute seconds of two participants with as much work each."""
    return {name: 6 / ranks for name, ranks in split.items()}


def test_a_design_does_not_recommend_what_was_skipped() -> None:
    design = CalibrationDesign(["A", "B"], budget=12, maximum_runs=6)
    while (split := design.ask()) is not None:
        design.tell(split, seconds_of(split))
    assert design.recommendation().split == {"A": 6, "B": 6}

    # All splits that give B six ranks, and the best one with more.
    design.skip({"B": 6})
    design.skip({"A": 5, "B": 7})

    # On five ranks B is the slower one, and a seventh rank of A changes nothing.
    assert design.recommendation().split in ({"A": 7, "B": 5}, {"A": 6, "B": 5})


def test_a_design_does_not_ask_for_what_was_skipped() -> None:
    # It goes on while runs are allowed.
    design = CalibrationDesign(["A", "B"], 12, maximum_runs=20, target_regret=-1.0)
    asked: list[dict[str, int]] = []
    for run in range(10):
        if run == 4:
            design.skip({"B": 6})
            design.skip({"A": 5, "B": 7})
        split = design.ask()
        assert split is not None
        asked.append(split)
        design.tell(split, seconds_of(split))

    # What is best is asked for more than once as long as it may be.
    assert asked[:4].count({"A": 6, "B": 6}) == 2
    assert 6 not in [split["B"] for split in asked[4:]]
    assert {"A": 5, "B": 7} not in asked[4:]


FAILS_ON_TWO = f"""{SOLVER}
if name == "Right" and size == "2":
    os.write(1, b"reading the mesh\\n--> FOAM FATAL ERROR: no decomposition\\n\\n")
    os.write(1, b"#0 in frame\\n" * 100)
    sys.exit(1)
"""


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_failure_is_told_with_the_lines_that_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path, solver=FAILS_ON_TWO, runs="splits = [{Left=1, Right=1}, {Left=1, Right=2}]")
    events: list[Event] = []
    result = run_study(path, events.append)
    record = result.runs[1]
    assert (record.reasons, record.blamed) == (["Right: --> FOAM FATAL ERROR: no decomposition"], ["Right"])
    assert [each.ranks for each in result.failed_splits] == [{"Right": 2}]
    told = [str(event) for event in events if event.kind == "run finished"]
    assert told[1].endswith("Right ended with exit code 1 | Right: --> FOAM FATAL ERROR: no decomposition")

    # Too few runs are no split.
    assert main(["calibrate", str(path), "--directory", str(tmp_path / "campaign")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    last = captured.err.splitlines()[-1]
    assert "expected runs at 2 splits or more" in last
    assert "FOAM FATAL ERROR: no decomposition" in last
    assert not (tmp_path / "campaign" / "recommendation.json").exists()
