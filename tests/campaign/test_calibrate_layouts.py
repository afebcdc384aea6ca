"""In which ways participants may run: threads, versions and kinds of nodes in studies, their designs and runs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import (
    COUPLED,
    changed,
    check_refused,
    quiet,
    recording,
    refusals,
    run_of,
    state_of,
    write_case,
    write_study,
)
from clock_helpers import study_environment

from precice_lb.campaign import (
    CampaignResult,
    RunPlan,
    Study,
    StudyDesign,
    load_campaign,
    read_study,
    run_campaign,
    tasks_of,
)
from precice_lb.campaign.launchers.slurm import StepLauncher, resource_options
from precice_lb.cli import main
from precice_lb.cli.case import Asked, measured_by, recommend_case
from precice_lb.dataset import load_runs
from precice_lb.exceptions import StudyError
from precice_lb.layout import Layout, Layouts

FREE = 'threads = "free"'
SLURM = 'name = "slurm"\n'
VERSIONS = """
[[participants.versions]]
name = "cpu"
command = "python solver.py Left"
{cpu}
[[participants.versions]]
name = "gpu"
command = "python solver.py Left"
{gpu}
"""
KINDS = """
[[machine.kinds]]
name = "cpu"
nodes = 3
cores_per_node = 4
{cpu}
[[machine.kinds]]
name = "gpu"
nodes = 1
cores_per_node = 4
gpus_per_node = 2
{gpu}
[[machine.kinds]]
name = "nobodys"
nodes = 1
cores_per_node = 64
"""
NODES = '[[machine.kinds]]\nname = "cpu"\nnodes = 4\ncores_per_node = 48\noptions = ["--partition=cpu"]\n'
SMALL = '[[machine.kinds]]\nname = "small"\nnodes = 1\ncores_per_node = 36\n'


def write(directory: Path, *, cpu: str | None = None, gpu: str = "", left: str = "", **words: str) -> Path:
    """Write a study of `write_case`'s case, whose Left has two versions where something is said of them."""
    versions = "" if cpu is None else VERSIONS.format(cpu=cpu, gpu=gpu)
    path = write_study(directory, left=left + versions, **{"case": 'network = "lo"', **words})
    return changed(path, ('command = "python solver.py Left"\ndeg', "deg")) if versions else path


def study_of(directory: Path, *, ranks: int = 4, **words: Any) -> Study:
    return read_study(changed(write(directory, **words), ("ranks = 4\n", f"ranks = {ranks}\n")))


def first_proposal(study: Study) -> dict[str, int]:
    proposal = StudyDesign(study, CampaignResult({}, directory=study.case_directory)).ask()
    assert proposal is not None
    return proposal.split


# --- threads ---------------------------------------------------------------------------------------------------------


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
    study = study_of(tmp_path, right=right)
    assert study.layouts == ({} if layouts is None else {"Right": layouts})
    asked = study.asked()
    CampaignResult(study.identity(), asked=asked, directory=tmp_path).save()
    assert state_of(tmp_path).asked == asked
    assert asked.demands().layouts == study.constraints[1].layouts == study.layouts
    assert ("layouts" in study.identity()["participants"]["Right"]) == (layouts is not None)


def test_the_design_asks_for_cores_that_there_are(tmp_path: Path) -> None:
    runs = 'splits = [{ Left = 2, Right = "1x2" }, { Left = 1, Right = 3 }]'
    named = study_of(tmp_path, right=FREE, runs=runs)
    assert named.splits == ({"Left": 2, "Right": 2}, {"Left": 1, "Right": 3})
    study = study_of(tmp_path, left="threads = 2", right='ranks = ["1x1", "1x5", "2x4"]', ranks=16)
    state = CampaignResult({}, directory=tmp_path)
    while (proposal := StudyDesign(study, state).ask()) is not None and len(state.runs) < 5:
        state.runs.append(run_of(len(state.runs) + 1, proposal.split))
        assert proposal.split["Left"] % 2 == 0
        assert proposal.split["Right"] in {1, 5, 8}
        study.require_split(proposal.split)
    assert state.runs
    with pytest.raises(StudyError, match=r"expected 1 to 8 cores \(1, 5, 8\) for 'Right', found 3"):
        study.require_split({"Left": 2, "Right": 3})


def test_only_participants_with_threads_find_them_in_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_PROC_BIND", "PRECICE_LB_THREADS"):
        monkeypatch.delenv(name, raising=False)
    environment = '{ CCX_NPROC_EQUATION_SOLVER = "{threads}", FROM = "{segment}: {start_time}" }'
    study = study_of(tmp_path, right=f"{FREE}\nenvironment = {environment}")
    left, solid = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path)
    assert (left.cores, left.variables, left.setting) == (1, {}, ())
    assert (solid.ranks, solid.threads, solid.cores) == (1, 3, 3)
    stated = {"CCX_NPROC_EQUATION_SOLVER": "3", "FROM": "1: 0"}
    assert solid.variables == stated | {"OMP_NUM_THREADS": "3", "PRECICE_LB_THREADS": "3", "OMP_PROC_BIND": "false"}
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    segment = {"segment": 3, "start_time": "0.5"}
    (_, solid) = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path, segment=segment)
    assert solid.variables["FROM"] == "3: 0.5"
    assert "OMP_PROC_BIND" not in solid.variables
    assert solid.setting[:2] == ("env", "OMP_NUM_THREADS=3")


def test_binding_of_threads_is_what_the_case_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    study = study_of(tmp_path, right=FREE, extra='[case.environment]\nOMP_PROC_BIND = "close"')

    (_, solid) = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path)

    # What a participant has of its own would come on top of what the case says.
    assert study.case.environment == {"OMP_PROC_BIND": "close"}
    assert "OMP_PROC_BIND" not in solid.variables


# Right hashes with as many threads as it is told, without MPI, and says how many it really had and on which cores.
THREADED = """\
import hashlib, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import precice_lb as precice

name, blocks = sys.argv[1], int(sys.argv[2])
mesh, own, theirs = {"Left": ("A-Mesh", "Heat", "Flux"), "Right": ("B-Mesh", "Flux", "Heat")}[name]
threads = int(os.environ["OMP_NUM_THREADS"])
data = bytes(1 << 20)
met = threading.Barrier(threads)

def share(_):
    met.wait()  # each task has a thread of its own
    for _ in range(blocks // threads):
        hashlib.sha256(data).digest()  # without the interpreter's lock
    return threading.get_ident()

solver = precice.Participant(name, "precice-config.xml", 0, 1)
ids = solver.set_mesh_vertices(mesh, np.array([[0.0, 0.0]]))
solver.initialize()
with ThreadPoolExecutor(threads) as pool:
    while solver.is_coupling_ongoing():
        dt = solver.get_max_time_step_size()
        solver.read_data(mesh, theirs, ids, dt)
        if name == "Left":
            time.sleep(0.005)
        else:
            used = len(set(pool.map(share, range(threads))))
        solver.write_data(mesh, own, ids, np.array([1.0]))
        solver.advance(dt)
solver.finalize()
if name == "Right":
    print(f"{used} threads on cores {sorted(os.sched_getaffinity(0))}, binding {os.environ['OMP_PROC_BIND']}")
"""


def threads_used(run: Path) -> int:
    """What Right says of its threads."""
    (used,) = re.findall(r"^(\d+) threads on cores", (run / "Right.log").read_text(), flags=re.MULTILINE)
    return int(used)


@pytest.mark.mpi
def test_a_campaign_of_threads_and_its_split_through_mpiexec(
    tmp_path: Path, mpiexec: str, capfd: pytest.CaptureFixture[str]
) -> None:
    changed(write_case(tmp_path, THREADED) / "precice-config.xml", ('windows value="1000"', 'windows value="7"'))
    study = write_study(
        tmp_path,
        runs='splits = [{ Left = 1, Right = "1x1" }, { Left = 1, Right = "1x2" }]\ndirectory = "campaign"',
        extra='[case.environment]\nPRECICE_LB_BACKEND = "embedded"',
        left="maximum_ranks = 1",
        right=f"{FREE}\nmaximum_ranks = 2",
    )
    recording(changed(study, ("ranks = 4", "cores = 3")), Left=4, Right=4)
    assert main(["calibrate", str(study)]) == 0
    shown = capfd.readouterr()
    assert "run 2 of 2: Left 1, Right 1 x 2 threads: 3 cores (split of the study, 2 of 2)" in shown.err
    campaign = tmp_path / "campaign"
    # In each run Right had the threads of its split, and what was measured says so.
    for name, threads in (("001-Left1-Right1", 1), ("002-Left1-Right1x2", 2)):
        place = campaign / "runs" / name
        assert threads_used(place) == threads
        (run,) = load_runs([place / "stores"])
        assert run.participants["Right"].ranks == 1
        told = {who: part.metadata["threads"] for who, part in run.participants.items()}
        assert told == {"Left": 1, "Right": threads}
    split = json.loads((campaign / "recommendation.json").read_text())["split"]
    assert split["Left"] == 1
    assert split["Right"] in {1, 2}
    # Any other split is as easily launched.
    assert main(["launch", "--study", str(study), "--split", "Left=1,Right=1x2"]) == 0
    done = subprocess.run([campaign / "launch" / "run.sh"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert threads_used(tmp_path / "case") == 2


# --- kinds of nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "cores", "placed", "step"),
    [
        ("threads = 8", 96, "--nodes=2 --ntasks-per-node=6 --cpus-per-task=8", 6),
        ("threads = 5", 50, "--nodes=2 --ntasks-per-node=9 --cpus-per-task=5", 9),
        ("threads = 8\nranks_per_node = 2", 32, "--nodes=2 --ntasks-per-node=2 --cpus-per-task=8", 2),
        ('threads = "free"', 48, "--nodes=1 --ntasks-per-node=1 --cpus-per-task=48", 1),
        ("", 96, "--nodes=2 --ntasks-per-node=48 --cpus-per-task=1", 48),
    ],
)
def test_a_node_gets_no_more_threads_than_it_has_cores(
    tmp_path: Path, right: str, cores: int, placed: str, step: int
) -> None:
    study = study_of(tmp_path, machine=NODES, ranks=192, right=right, launcher=SLURM)
    one, split = study.started({"Left": 4, "Right": cores})
    tasks = tasks_of(one, split, tmp_path, tmp_path)
    assert tasks[1].ranks_on_node == step
    assert resource_options(tasks, ())[1] == ["--partition=cpu", *placed.split()]
    one.require_split(split)
    with pytest.raises(StudyError):
        one.require_split({"Left": 49, "Right": 144 if "ranks_per_node" not in right else 64})


def test_splits_stay_within_the_nodes_of_each_kind(tmp_path: Path) -> None:
    small = {"machine": NODES.replace("= 48", "= 36").replace("= 4\n", "= 8\n") + SMALL, "ranks": 324}
    words = {"launcher": SLURM, "right": 'kind = "small"', **small}
    study = study_of(tmp_path, **words)
    assert study.bounds == {"Left": (1, 288), "Right": (1, 36)}
    assert first_proposal(study)["Right"] <= 36
    with pytest.raises(StudyError, match=r"machine: .* at least 2 nodes of kind 'small', found 1"):
        study_of(tmp_path, **{**words, "right": 'kind = "small"\nminimum_ranks = 40'})
    # Each has room for itself, but not for both.
    runs = "splits = [{Left = 100, Right = 92}]"
    with pytest.raises(StudyError, match=r"runs.splits\[1\]: .* at least 5 nodes of kind 'cpu', found 4"):
        study_of(tmp_path, machine=NODES, ranks=192, runs=runs, launcher=SLURM)


# --- versions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", refusals("versions-refused.txt"))
def test_what_cannot_be_had_is_refused_before_anything_runs(tmp_path: Path, block: str) -> None:
    kinds = KINDS.format(cpu='options = ["--partition=a"]', gpu="")
    check_refused(write(tmp_path, cpu="", gpu='gpus_per_rank = 1\nkind = "gpu"', machine=kinds, launcher=SLURM), block)


def test_the_identity_has_what_runs_depend_on_and_nothing_else(tmp_path: Path) -> None:
    kinds = KINDS.format(cpu="", gpu="")

    def participants(**words: str) -> Any:
        path = write(tmp_path, launcher=SLURM, cpu="", **{"machine": kinds, **words})
        return read_study(path).identity()["participants"]

    first = participants()
    assert first["Left"]["versions"] == [
        {"name": name, "command": "python solver.py Left", "kind": ["cpu", 4, 0]} for name in ("cpu", "gpu")
    ]
    assert first["Right"]["kind"] == ["cpu", 4, 0]
    partition = KINDS.format(cpu='options = ["--partition=a"]', gpu="").replace("nodes = 3", "nodes = 2")
    assert participants(gpu='options = ["--account=x"]', machine=partition, right='kind = "cpu"') == first
    smaller = {"machine": kinds.replace("cores_per_node = 4", "cores_per_node = 2")}
    for words in ({"gpu": 'kind = "gpu"'}, {"right": 'kind = "gpu"'}, smaller, {"gpu": "ranks_per_node = 1"}):
        assert participants(**words) != first


def test_a_version_has_what_it_names_beside_what_the_participant_does(tmp_path: Path) -> None:
    prepared = 'prepare = ["python solver.py base"]\noptions = ["--comment=left"]\nenvironment = {A = "1"}'
    gpu = 'gpus_per_rank = 1\nkind = "gpu"\nenvironment = {B = "{ranks}"}\nprepare = ["python solver.py decompose"]'
    kinds = KINDS.format(cpu='options = ["--partition=cpu"]', gpu='options = ["--partition=gpu"]')
    study = study_of(tmp_path, left=prepared, cpu="", gpu=gpu, machine=kinds, launcher=SLURM, ranks=16)
    assert study.combinations == [{"Left": "cpu"}, {"Left": "gpu"}]
    one, split = study.started({"Left:gpu": 2, "Right": 1})
    assert split == {"Left": 2, "Right": 1}
    assert one.participants[0].prepare == ("python solver.py base", "python solver.py decompose")
    left, right = tasks_of(one, split, tmp_path, tmp_path)
    assert dict(left.variables) == {"A": "1", "B": "2", "PRECICE_LB_VERSION": "gpu"}
    assert (left.ranks_per_node, right.ranks_per_node) == (2, 4)
    assert resource_options((left, right), ()) == [
        ["--partition=gpu", "--comment=left", "--gpus-per-task=1", "--nodes=1", "--ntasks-per-node=2",
         "--cpus-per-task=1"],
        ["--partition=cpu", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1"],
    ]  # fmt: skip
    assert isinstance(one.launcher, StepLauncher)
    assert "--gpus-per-task=1" in one.launcher.command(RunPlan("run", tmp_path, (left, right)), left)
    # What counts for the split and the recommendation.
    budget, constraints = study.asked().demands().constraints()
    of_gpu = constraints.of("gpus_per_rank", "Left", "gpu"), constraints.kind_of("Left", "gpu").nodes
    assert (budget, *of_gpu) == (5, 1, 1)
    one.require_split({"Left": 2, "Right": 2})
    with pytest.raises(StudyError, match=r"machine.kinds: .* at least 4 nodes of kind 'cpu', found 3"):
        study.chosen({"Left": "cpu"}).require_split({"Left": 8, "Right": 5})
    # A campaign of it measures this version alone.
    assert (one.bounds["Left"], one.combinations) == ((1, 2), [{}])
    assert first_proposal(one)["Left"] <= 2


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_campaign_measures_both_versions_and_recommends_the_one_that_is_planted_faster(tmp_path: Path) -> None:
    words = {"solver": COUPLED, "runs": "maximum = 5\ntarget_regret = 0", "extra": study_environment()}
    path = write(tmp_path, cpu="", gpu='environment = {CELLS = "0.1"}', **words)
    study = read_study(recording(path, Left=0.6, Right=0.3))
    result = run_campaign(study, tmp_path / "campaign", report=quiet)
    ran = [run.versions["Left"] for run in result.finished]
    # Each twice, and then only what may be the best.
    assert sorted(ran[:4]) == ["cpu", "cpu", "gpu", "gpu"], result.runs
    assert set(ran[4:]) <= {"gpu"}
    assert {run.directory.split("-")[1][:7] for run in result.finished} == {"Leftcpu", "Leftgpu"}
    loaded = load_campaign(tmp_path / "campaign")
    assert loaded is not None
    measured = loaded.measurements()
    assert measured.degrees_of_freedom == {"Left": 1000.0}
    told = {(run.name, run.warmup_windows, len(run.participants["Left"].windows)) for run in loaded.coupled_runs()}
    assert told == {(f"{run.name}-{run.token}", 2, 7) for run in result.runs}
    rows = measured.samples["Left"]
    work = np.where(measured.frames["Left"].version == "gpu", 0.06, 0.6)
    np.testing.assert_allclose(rows[:, 1], work / rows[:, 0], atol=2e-4)
    assert "Right" not in measured.versions
    recommendation = recommend_case(measured_by(loaded), Asked())
    assert (recommendation.versions, recommendation.split) == ({"Left": "gpu"}, {"Left": 1, "Right": 3})
    assert recommendation.window_seconds == pytest.approx(0.1, rel=0.1)
