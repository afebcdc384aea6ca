"""Participants with threads: what a study says of them, what is measured, and how launchers start them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, changed, run_of, state_of, write_case, write_study

from precice_lb.campaign import Event, Launcher, RunPlan, Study, Task, read_study, run_campaign
from precice_lb.campaign.design_study import StudyDesign
from precice_lb.campaign.evidence import wrong_size
from precice_lb.campaign.launchers.local import available_cores
from precice_lb.campaign.prepare import tasks_of
from precice_lb.campaign.state import CampaignResult
from precice_lb.exceptions import StudyError
from precice_lb.layout import Layout, Layouts
from precice_lb.plugins import LAUNCHERS

FREE = 'threads = "free"'


def study_of(directory: Path, right: str = FREE, **more: str) -> Study:
    """A study of 4 cores, in which Right has threads unless told otherwise."""
    write_case(directory)
    return read_study(write_study(directory, right=right, **more))


# --- studies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "layouts"),
    [
        (FREE, Layouts(1, None)),
        ('threads = "free"\nranks = 2', Layouts(2, None)),
        ("threads = 2", Layouts(None, 2)),
        ('threads = 2\nranks = "free"', Layouts(None, 2)),
        ("ranks = 2", Layouts(2, 1)),
        ('ranks = ["1x1", "1x3"]', Layouts(None, None, (Layout(1, 1), Layout(1, 3)))),
        ('ranks = "free"\nthreads = 1', None),
    ],
)
def test_ranks_and_threads_of_a_study(tmp_path: Path, right: str, layouts: Layouts | None) -> None:
    study = study_of(tmp_path, right)
    assert study.layouts == ({} if layouts is None else {"Right": layouts})
    asked = study.asked()
    CampaignResult(study.identity(), asked=asked, directory=tmp_path).save()
    assert state_of(tmp_path).asked == asked
    read = {own.name: own.layouts for own in asked.participants if own.layouts != Layouts()}
    assert read == study.constraints[1].layouts == study.layouts
    assert ("layouts" in study.identity()["participants"]["Right"]) == (layouts is not None)


def test_the_order_of_pairs_makes_no_other_campaign(tmp_path: Path) -> None:
    one, other = (
        study_of(tmp_path / str(at), f"ranks = {pairs}")
        for at, pairs in enumerate(('["1x3", "1x1"]', '["1x1", "1x3"]'))
    )
    assert one.identity()["participants"] == other.identity()["participants"]
    assert one.identity()["participants"]["Right"]["layouts"] == [[1, 1], [1, 3]]


@pytest.mark.parametrize(
    ("left", "right", "wrong"),
    [
        ("", 'ranks = "free"\nthreads = "free"', "expected ranks or threads to be fixed, or pairs of both, found both"),
        ("", 'ranks = ["1x2", "1x2"]', "ranks: expected each once, found '1x2' twice"),
        ("", 'ranks = ["1x2", 2]', "expected one way to use 2 cores, found two: 1 x 2 threads and 2"),
        ("", 'ranks = ["1x8"]', "1 at least (minimum); 4 at most (maximum); 8 cores for its threads"),
        ("", 'ranks = [2]\nthreads = "free"', 'expected ranks x threads, such as "2x4", beside free threads, found 2'),
        ("", "ranks = []", "expected at least one"),
        ("", "threads = 0", "expected a number from 1, or \"free\", found 0"),
        ("", 'threads = "many"', "expected a number from 1, or \"free\", found 'many'"),
        ("", "threads = 2\nmaximum_cores = 1", "1 at most (maximum); a multiple of 2 cores for its threads"),
        ("", "minimum_cores = 1\nminimum_ranks = 1", "expected either minimum_cores or minimum_ranks, which"),
        ("threads = 2", "threads = 3", "machine: expected a budget of at least 5 cores for 2 participants"),
        ("", FREE + '\nenvironment = { CCX = "{thread}" }', "environment.CCX: unknown placeholder {thread}"),
        ("", 'pairs = ["1x2"]', "pairs of ranks and threads, such as [[1, 4]], found '1x2'"),
        ("", 'ranks = ["1 by 2"]', "expected ranks, or ranks x threads such as 1x8, found '1 by 2'"),
        ("", FREE + "\nminimum_cores = 3\nmaximum_cores = 2", "3 at least (minimum); 2 at most (maximum)"),
        ("", FREE + '\nenvironment = { OMP_NUM_THREADS = "7" }', "OMP_NUM_THREADS: the participant's threads set it"),
        ("", 'environment = { PRECICE_LB_THREADS = "2" }', "PRECICE_LB_THREADS: the campaign itself sets this"),
    ],
)  # fmt: skip
def test_what_no_participant_can_have_is_refused_in_one_line(tmp_path: Path, left: str, right: str, wrong: str) -> None:
    write_case(tmp_path)
    with pytest.raises(StudyError) as caught:
        read_study(write_study(tmp_path, left=left, right=right))
    assert wrong in str(caught.value)
    assert "\n" not in str(caught.value)


def test_threads_on_a_launcher_of_ranks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class RanksAlone(Launcher):
        """Knows nothing of threads."""

        def command(self, plan: RunPlan, task: Task) -> list[str]:
            return []

    monkeypatch.setitem(LAUNCHERS._added, "ranks-alone", RanksAlone)
    monkeypatch.setattr(type(LAUNCHERS), "__contains__", lambda self, name: name == "ranks-alone" or name in [*self])
    write_case(tmp_path)
    with pytest.raises(StudyError, match="launcher ranks-alone, which only knows ranks: use mpiexec, srun"):
        read_study(write_study(tmp_path, launcher='name = "ranks-alone"', right=FREE))
    # Fixed ranks are no threads.
    assert read_study(write_study(tmp_path, launcher='name = "ranks-alone"', right="ranks = 2")).layouts


def test_a_template_has_to_say_where_threads_go(tmp_path: Path) -> None:
    write_case(tmp_path)
    changed(tmp_path / "case" / "precice-config.xml", ("<m2n:sockets ", '<m2n:sockets network="ib0" '))
    template = 'name = "template"\nparticipant = "go -n {ranks} %s{command}"'
    with pytest.raises(StudyError, match=r"only knows ranks: .*write \{threads\} or \{cores\} into launcher"):
        read_study(write_study(tmp_path, launcher=template % "", right=FREE))
    line = template % "-d {threads} -c {cores} "
    assert read_study(write_study(tmp_path, launcher=line, right="threads = 3")).launcher.gives_threads


def test_splits_are_cores_or_ranks_x_threads(tmp_path: Path) -> None:
    runs = 'splits = [{ Left = 2, Right = "1x2" }, { Left = 1, Right = 3 }]'
    study = study_of(tmp_path, runs=runs)
    assert study.splits == ({"Left": 2, "Right": 2}, {"Left": 1, "Right": 3})
    assert StudyDesign(study, CampaignResult({}, directory=tmp_path)).total == 2
    for given, wrong in (
        ("2x1", "Right: expected 1 x 2 threads on 2 cores, found 2"),
        ("0x2", "expected ranks, or ranks x threads such as 1x8, found '0x2'"),
        ("1x4", "expected at most the 4 cores of the budget, found 5"),
    ):
        path = write_study(tmp_path, right=FREE, runs=f'splits = [{{ Left = 1, Right = "{given}" }}]')
        with pytest.raises(StudyError, match=wrong):
            read_study(path)


def test_a_chain_starts_with_threads(tmp_path: Path) -> None:
    chain = '[chain]\nwindows = 5\ntotal = 10\nstart = { Left = 1, Right = "%s" }'
    study = study_of(tmp_path, extra=chain % "1x3")
    assert study.chain is not None
    assert study.chain.start is not None
    assert study.split_of(study.chain.start) == {"Left": 1, "Right": 3}
    with pytest.raises(StudyError, match=r"chain\.start: Right: expected 1 x 2 threads on 2 cores, found 2"):
        read_study(write_study(tmp_path, right=FREE, extra=chain % "2x1"))


def test_the_design_asks_for_cores_that_there_are(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path, left="threads = 2", right='ranks = ["1x1", "1x5", "2x4"]')
    study = read_study(changed(path, ("ranks = 4", "cores = 16")))
    state = CampaignResult({}, directory=tmp_path)
    while (proposal := StudyDesign(study, state).ask()) is not None and len(state.runs) < 5:
        state.runs.append(run_of(len(state.runs) + 1, proposal.split))
        assert proposal.split["Left"] % 2 == 0
        assert proposal.split["Right"] in {1, 5, 8}
        study.require_split(proposal.split)
    assert state.runs
    with pytest.raises(StudyError, match=r"expected 1 to 8 cores \(1, 5, 8\) for 'Right', found 3"):
        study.require_split({"Left": 2, "Right": 3})


def test_another_machine_narrows_what_threads_allow(tmp_path: Path) -> None:
    study = study_of(tmp_path, 'threads = "free"\nmultiple = 2', left="ranks = [1, 4]")
    assert study.allow == {"Left": [1, 4], "Right": [2, 4]}
    with pytest.raises(StudyError, match="machine: "):
        study_of(tmp_path / "other", 'threads = "free"\nmultiple = 8')


# --- runs ----------------------------------------------------------------------------------------------------------


def test_only_participants_with_threads_find_them_in_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_PROC_BIND", "PRECICE_LB_THREADS"):
        monkeypatch.delenv(name, raising=False)
    right = FREE + '\nenvironment = { CCX_NPROC_EQUATION_SOLVER = "{threads}", WHO = "{participant}" }'
    study = study_of(tmp_path, right)
    left, solid = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path)
    assert (left.cores, left.variables, left.setting) == (1, {}, ())
    assert (solid.ranks, solid.threads, solid.cores) == (1, 3, 3)
    own = {"CCX_NPROC_EQUATION_SOLVER": "3", "WHO": "Right"}
    assert solid.variables == own | {"OMP_NUM_THREADS": "3", "PRECICE_LB_THREADS": "3", "OMP_PROC_BIND": "false"}
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    (_, solid) = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path)
    assert "OMP_PROC_BIND" not in solid.variables
    assert solid.setting[:2] == ("env", "OMP_NUM_THREADS=3")


def test_variables_say_where_in_a_chain_a_run_is(tmp_path: Path) -> None:
    study = study_of(tmp_path, 'environment = { FROM = "{segment}: {start_time}" }')
    split = {"Left": 1, "Right": 1}
    for segment, text in (({}, "1: 0"), ({"segment": {"segment": 3, "start_time": "0.5"}}, "3: 0.5")):
        assert tasks_of(study, split, tmp_path, tmp_path, **segment)[1].variables["FROM"] == text


def test_mpi_is_to_see_ranks_not_cores(tmp_path: Path) -> None:
    (tmp_path / "stores").mkdir()
    (tmp_path / "stores" / "Right-0-1.h5").touch()
    assert wrong_size(tmp_path, {"Right": Layout(1, 8)}) is None
    assert "Right was to run on 8 ranks, but its MPI says 1" in str(wrong_size(tmp_path, {"Right": Layout(8)}))


@pytest.mark.mpi
@pytest.mark.skipif(len(available_cores()) < 2, reason="one core alone")
def test_a_threaded_solver_without_mpi_has_its_cores(tmp_path: Path, mpiexec: str) -> None:
    cores = available_cores()
    said = "os.write(1, f'cores {sorted(os.sched_getaffinity(0))}\\n'.encode())\n"
    write_case(tmp_path, SOLVER + said)
    path = write_study(
        tmp_path, launcher="", left="ranks = 1", right=FREE, runs='splits = [{ Left = 1, Right = "1x1" }]'
    )
    events: list[Event] = []
    run_campaign(read_study(path), tmp_path / "campaign", report=events.append)
    assert "run 1 of 1: Left 1, Right 1: 2 cores (split of the study, 1 of 1)" in map(str, events)
    run = tmp_path / "campaign" / "runs" / "001-Left1-Right1"
    seen = json.loads((run / "case" / "Right-seen.json").read_text())
    assert (seen["OMP_NUM_THREADS"], seen["PRECICE_LB_THREADS"]) == ("1", "1")
    assert f"cores [{cores[1]}]" in (run / "Right.log").read_text()
    assert os.environ.get("PRECICE_LB_THREADS") is None
