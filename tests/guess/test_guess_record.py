"""Runs with a first guess: the same results in fewer iterations, and a clear end where a side takes no part."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from embedded.embedded_helpers import write_configuration
from record_helpers import BACKENDS, environment, finish, start, warnings_of

from precice_lb.guess import patch_guess
from precice_lb.store import find_stores, read_store

LIMIT = 1e-7
WINDOWS = 40

# One after the other does all jobs: in their directories, with the first guess that each asks for.
SOLVER = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
import precice_lb

name, jobs = sys.argv[1], json.loads(Path("jobs.json").read_text())
asked = os.environ.get("PRECICE_LB_GUESS", "")
rank, size = 0, int(sys.argv[2])
if size > 1:
    from mpi4py import MPI
    rank = MPI.COMM_WORLD.Get_rank()

def run(job):
    precice, guess = precice_lb, job.get("guess", asked).removeprefix("none")
    os.environ.pop("PRECICE_LB_GUESS", None)
    if guess:
        os.environ["PRECICE_LB_GUESS"] = "auto"
        from precice_lb.guess import exchange, predictors
        # Windows are over at once here: learning would come too seldom.
        exchange._SHARE = 1e9
        # One predictor alone, and always.
        every = globals().setdefault("every", predictors.CANDIDATES)
        if guess != "auto":
            predictors.CANDIDATES = {key: value for key, value in every.items() if key == guess}
            exchange.PredictionController.wants = lambda self: True
    if job.get("plain") == name:
        import precice
    exec(job.get("before", ""), globals())
    cls = job.get("class") and globals()[job["class"]] or precice.Participant
    participant = cls(name, "precice-config.xml", rank, size)
    mesh, kept, iterations, now = f"{name}-Mesh", [], [1], 0.0
    count = {"A": 13, "B": job.get("points", 9)}[name]
    x = np.array_split(np.linspace(0.0, 1.0, count), size)[rank]
    ids = participant.set_mesh_vertices(mesh, np.stack([x, 0.0 * x], axis=1))
    own, other = ("Force", "Heat") if name == "A" else ("Heat", "Force")
    vector = participant.get_data_dimensions(mesh, own) > 1
    read_vector = participant.get_data_dimensions(mesh, other) > 1
    scale = 1.0 / 4.0 if job.get("conservative") and name == "B" else 1.0

    def write(values):
        values = np.stack([values, 0.3 * values**2], axis=1) if vector else values
        how = job.get("write", "")
        if how == "pieces":
            for part in np.array_split(np.arange(len(ids))[::-1], 3):
                participant.write_data(mesh, own, ids[part], values[part])
        elif how == "bytes":
            participant.write_data(mesh.encode(), own.encode(), tuple(ids.tolist()), values.reshape(len(ids), -1)
                                   if not vector else values)
        elif how == "keywords":
            participant.write_data(values=values.tolist(), vertex_ids=[*ids], data_name=own, mesh_name=mesh)
        else:
            participant.write_data(mesh, own, ids, values)

    def read(at):
        if job.get("write") == "bytes":
            return participant.read_data(mesh.encode(), other.encode(), tuple(ids.tolist()), at)
        if job.get("write") == "keywords":
            return participant.read_data(relative_read_time=at, vertex_ids=[*ids], data_name=other, mesh_name=mesh)
        return participant.read_data(mesh, other, ids, at)

    value = 0.5 * np.cos(x)
    if not job.get("asks_nothing") and participant.requires_initial_data():
        write(value)
    participant.initialize()
    started = read(0.0)
    while participant.is_coupling_ongoing():
        if participant.requires_writing_checkpoint():
            saved = value.copy(), now
        longest = participant.get_max_time_step_size()
        dt = min(longest, job.get("step", {}).get(name, longest))
        got = read(dt)
        middle = read(0.5 * dt)
        got, middle = (scale * (v[:, 0] + v[:, 1] if read_vector else v) for v in (got, middle))
        now += dt
        if name == "A":
            value = (1.0 + 0.3 * np.sin(2.0 * now + x)) * np.cos(0.7 * got + 0.1 * middle)
        else:
            value = (value + 6.0 * dt * (got + 0.05 * middle - 0.2 * value**3)) / (1.0 + 6.0 * dt)
        write(value)
        participant.advance(dt)
        exec(job.get("after_advance", ""), globals() | locals())
        if participant.requires_reading_checkpoint():
            value, now = saved[0].copy(), saved[1]
            iterations[-1] += 1
        elif participant.is_time_window_complete():
            kept.append(np.concatenate([value, got, read(0.0).ravel()]))
            iterations.append(1)
    last = read(0.0)
    participant.finalize()
    np.savez(f"{name}-{rank}.npz", kept=kept, iterations=iterations[:-1], started=started, last=last)

for job in jobs:
    os.chdir(job["directory"])
    run(job)
sys.stdout.write(f"{name} has ended\\n")
"""


def _prepare(
    directory: Path, *, patched: bool = True, kind: str = "serial-implicit", acceleration: str = "IQN-ILS",
    windows: int = WINDOWS, end: str = "", **options: Any,
) -> Path:  # fmt: skip
    """Write the configuration of a run, with the fields of predictions or without."""
    directory.mkdir(parents=True)
    plain, used = directory / "plain.xml", directory / "precice-config.xml"
    columns = '<initial-relaxation value="0.5"/>'
    if acceleration == "IQN-ILS":
        columns += '<max-used-iterations value="30"/><time-windows-reused value="4"/><filter type="QR2" limit="1e-2"/>'
    names = ("Heat", "Force")
    accelerated = "".join(f"<data name:{name} />" for name in names[: 2 if kind.startswith("parallel") else 1])
    measures = "".join(f'<absolute-convergence-measure data:{n} limit="{LIMIT}"/>' for n in names)
    write_configuration(
        plain if patched else used,
        participants={"A": [], "B": []},
        exchanges=[(kind, "A", "B", "Force:A>B Heat:B>A")],
        end=end or f'<max-time-windows value="{windows}" />',
        iteration=f'<max-iterations value="60"/>{measures}'
        f"<acceleration:{acceleration}>{accelerated}{columns}</acceleration:{acceleration}>",
        **options,
    )
    if patched:
        patch_guess(plain, used)
    return directory


def _start(
    directory: Path,
    jobs: Sequence[Mapping[str, Any]],
    backend: str,
    guess: Mapping[str, str] | None = None,
    ranks: Mapping[str, int] | None = None,
    mpiexec: str = "",
) -> dict[str, subprocess.Popen[str]]:
    """Start both solvers, with what they ask for by the variable and on so many ranks."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "solver.py").write_text(SOLVER)
    (directory / "jobs.json").write_text(json.dumps([{**job, "directory": str(job["directory"])} for job in jobs]))
    commands, variables = {}, {}
    for name in "AB":
        count = (ranks or {}).get(name, 1)
        launch = [mpiexec, "-n", str(count)] if count > 1 else []
        commands[name] = [*launch, sys.executable, "-W", "error", "solver.py", name, str(count)]
        variables[name] = environment(PRECICE_LB_BACKEND=backend, PRECICE_LB_GUESS=(guess or {}).get(name, ""))
    return start(directory, commands, variables)


def _run(*arguments: Any, **named: Any) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run both to an end that is good and without a word."""
    results = finish(_start(*arguments, **named))
    for name, result in results.items():
        assert result.returncode == 0, result.stderr
        assert f"{name} has ended" in result.stdout
    return results


def _saved(directory: Path, name: str, ranks: int = 1) -> dict[str, np.ndarray]:
    parts = [np.load(directory / f"{name}-{rank}.npz") for rank in range(ranks)]
    joined = {key: np.concatenate([part[key] for part in parts], axis=-1) for key in ("kept", "started", "last")}
    return {**joined, "iterations": parts[0]["iterations"]}


def _close(ours: Path, plain: Path, ranks: Mapping[str, int] | None = None) -> None:
    """Both have the same results to the limit of convergence."""
    for name in "AB":
        one, other = (_saved(place, name, (ranks or {}).get(name, 1)) for place in (ours, plain))
        for key in ("kept", "started", "last"):
            np.testing.assert_allclose(one[key], other[key], rtol=0.0, atol=60 * LIMIT, err_msg=f"{name} {key}")


def _iterations(directory: Path) -> int:
    both = [_saved(directory, name)["iterations"].tolist() for name in "AB"]
    assert both[0] == both[1]
    return sum(both[0])


# --- results and iterations ----------------------------------------------------------------------------------------

PARALLEL = {"kind": "parallel-implicit"}
CASES: dict[str, dict[str, Any]] = {
    "serial": {},
    "parallel": PARALLEL,
    "aitken": {"acceleration": "aitken"},
    "parallel aitken": {**PARALLEL, "acceleration": "aitken"},
    "vector": {**PARALLEL, "vector": ("Force", "Heat")},
    "subcycling": {**PARALLEL, "step": {"A": 0.03, "B": 0.025}},
    "degree 0": {
        **PARALLEL,
        "step": {"A": 0.03},
        "degrees": {"Force": 0, "Heat": 0},
        "substeps": {"Force": False, "Heat": False},
    },
    "no substeps": {"step": {"B": 0.05}, "substeps": {"Heat": False, "Force": False}},
    "degree 3": {**PARALLEL, "step": {"A": 0.025, "B": 0.02}, "degrees": {"Force": 3, "Heat": 3}},
    "non-matching": {**PARALLEL, "points": 6},
    "conservative": {**PARALLEL, "conservative": ("Force",), "write_direction": ("Force",)},
    "initialized": {**PARALLEL, "initialize": ("Heat", "Force"), "vector": ("Force",)},
    "last window shorter": {"end": '<max-time value="4.03" />'},
}


def _jobs(directory: Path, modes: Sequence[str], case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Jobs in directories of the names of the modes, where "none" has the configuration as it was."""
    options = {key: value for key, value in case.items() if key not in ("step", "points")}
    of_solver = {key: case[key] for key in ("step", "points", "conservative") if key in case}
    return [
        {"directory": _prepare(directory / mode, patched=mode != "none", **options), "guess": mode, **of_solver}
        for mode in modes
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(CASES) if FULL_COUNTS else ["degree 0"])
def test_results_are_the_same_with_each_predictor(tmp_path: Path, name: str, backend: str) -> None:
    modes = ["none", "auto", "hold", "linear", "quadratic", "periodic", "reduced"]
    results = _run(
        tmp_path, _jobs(tmp_path, modes, {"windows": WINDOWS if FULL_COUNTS else 25, **CASES[name]}), backend
    )
    assert not [warning for result in results.values() for warning in warnings_of(result)]
    for mode in modes[1:]:
        _close(tmp_path / mode, tmp_path / "none")
    counts = {mode: _iterations(tmp_path / mode) for mode in modes}
    # With libprecice to the last bit; the embedded backend's matrices lie elsewhere and are rounded otherwise.
    assert abs(counts["hold"] - counts["none"]) <= (0 if backend == "libprecice" else 0.04 * counts["none"])
    assert counts["quadratic"] < counts["none"], counts
    assert counts["reduced"] < counts["none"], counts
    # The first windows hold, and so few tell little.
    assert counts["auto"] < 1.08 * counts["none"], counts


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_start_from_the_extrapolation_of_those_before(tmp_path: Path, backend: str) -> None:
    weights = {"hold": [1.0], "linear": [2.0, -1.0], "quadratic": [3.0, -3.0, 1.0]}
    first = {
        "before": "firsts = []",
        "after_advance": "if iterations[-1] == 1: firsts.append(got); np.save(f'{name}-firsts.npy', firsts)",
    }
    jobs = [
        {"directory": _prepare(tmp_path / kind / mode, kind=kind, windows=8), "guess": mode, **first}
        for kind in ("serial-implicit", "parallel-implicit")
        for mode in weights
    ]
    _run(tmp_path, jobs, backend)
    for job in jobs:
        firsts, back = np.load(job["directory"] / "A-firsts.npy"), weights[job["guess"]]
        ends = _saved(job["directory"], "A")["kept"][:, -13:]
        # The first three windows hold, of which two are to tell who is best.
        for window in range(3, 8):
            expected = np.tensordot(back, ends[window - len(back) : window][::-1], 1)
            np.testing.assert_allclose(firsts[window], expected, rtol=0.0, atol=1e-12)


@pytest.mark.mpi
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["serial", "conservative"] if FULL_COUNTS else ["conservative"])
def test_ranks_predict_their_own_part(tmp_path: Path, mpiexec: str, name: str, backend: str) -> None:
    ranks = {"A": 2, "B": 3}
    # Five ranks that wait for each other on few cores are slow.
    case = {**CASES[name], "windows": 20 if FULL_COUNTS else 12}
    _run(tmp_path, _jobs(tmp_path, ["none", "reduced"], case), backend, ranks=ranks, mpiexec=mpiexec)
    _close(tmp_path / "reduced", tmp_path / "none", ranks)
    counts = [_saved(tmp_path / mode, "B", 3)["iterations"].sum() for mode in ("reduced", "none")]
    assert counts[0] < counts[1]


# --- what is recorded ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_tell_who_guessed_each_window(tmp_path: Path, backend: str) -> None:
    home = _prepare(tmp_path / "run", kind="parallel-implicit")
    _run(tmp_path, [{"directory": home, "guess": "quadratic"}], backend)
    a, b = map(read_store, find_stores([home / "precice-lb-store"]))
    for store in (a, b):
        guesses = store.rows("guesses")
        assert store.metadata["guess"] == "auto"
        assert guesses["window"].tolist() == list(range(1, WINDOWS + 1))
        names = [store.names("guesses")[number] for number in guesses["name"]]
        assert names == ["hold"] * 3 + ["quadratic"] * (WINDOWS - 3)
        assert (guesses["cost_ns"] > 0).all()
        assert np.isnan(guesses["error"][0])
        assert np.median(guesses["error"][5:]) < 0.5


def test_a_rank_that_is_killed_leaves_its_guesses_and_its_partner_ends(tmp_path: Path) -> None:
    home = _prepare(tmp_path / "run")
    kill = "if name == 'A' and len(kept) == 30: os.kill(os.getpid(), signal.SIGKILL)"
    job = {"directory": home, "guess": "linear", "after_advance": kill}
    results = finish(_start(tmp_path, [job], "embedded"))
    assert results["A"].returncode == -signal.SIGKILL
    assert results["B"].returncode != 0
    stores = {store.metadata["participant"]: store for store in map(read_store, find_stores([home]))}
    assert not stores["A"].metadata["finished"]
    for store in stores.values():
        windows = store.rows("guesses")["window"].tolist()
        assert windows == list(range(1, len(windows) + 1))
    # It predicts nothing itself in a serial scheme: only the second participant does.
    assert len(stores["B"].rows("guesses")) >= 20


def test_a_predictor_that_fails_is_one_warning_and_held(tmp_path: Path) -> None:
    homes = {mode: _prepare(tmp_path / mode) for mode in ("linear", "hold")}
    broken = (
        "from precice_lb.guess import predictors\n"
        "def fails(self, history, value):\n"
        "    return value if len(history) <= 10 else value * np.nan\n"
        "predictors.Extrapolation.predict = fails"
    )
    jobs = [{"directory": home, "guess": mode, "before": broken} for mode, home in homes.items()]
    results = _run(tmp_path, jobs, "embedded")
    (warning,) = warnings_of(results["B"])
    assert "B goes on without predictions of the rank's data: expected finite predictions of linear" in warning
    assert not warnings_of(results["A"])
    _close(homes["linear"], homes["hold"])
    assert _iterations(homes["linear"]) == _iterations(homes["hold"])


# --- what solvers do -----------------------------------------------------------------------------------------------

OWN = """
class Own(precice_lb.Participant):
    def write_data(self, mesh, data, ids, values):
        return super().write_data(mesh, data, ids, self.factor * np.asarray(values))
    def read_data(self, mesh, data, ids, at):
        return super().read_data(mesh, data, ids, at) / self.factor
    def advance(self, dt):
        self.steps = getattr(self, "steps", 0) + 1
        return precice_lb.Participant.advance(self, dt)
    factor = 4.0
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_solvers_may_call_as_they_like(tmp_path: Path, backend: str) -> None:
    jobs: list[dict[str, Any]] = []
    options = {"kind": "parallel-implicit", "vector": ("Heat",), "windows": 15}
    for how in ("", "pieces", "bytes", "keywords"):
        home = _prepare(tmp_path / f"write {how}", **options)
        jobs.append({"directory": home, "guess": "quadratic", "write": how})
    jobs.append({**jobs[0], "directory": _prepare(tmp_path / "asks nothing", **options), "asks_nothing": True})
    own = {"before": OWN, "class": "Own"}
    jobs.append({**jobs[0], "directory": _prepare(tmp_path / "derived", **options), **own})
    plain = _prepare(tmp_path / "plain", patched=False, **options)
    _run(tmp_path, [*jobs, {"directory": plain}], backend)
    for job in jobs:
        _close(job["directory"], plain)
        # In other units the limits are others.
        assert "class" in job or _iterations(job["directory"]) < _iterations(plain)


# --- off, and one side only ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_off_nothing_that_guesses_is_loaded_and_nothing_differs(tmp_path: Path, backend: str) -> None:
    homes = [_prepare(tmp_path / name, patched=False) for name in ("ours", "plain")]
    # What a store may hold is known.
    loaded = "assert {n for n in sys.modules if 'lb.guess' in n} == {'precice_lb.guess', 'precice_lb.guess.columns'}"
    _run(tmp_path, [{"directory": homes[0], "after_advance": loaded}], backend)
    if backend == "libprecice":
        _run(tmp_path, [{"directory": homes[1], "plain": "A"}], backend)
        for name in ("A-0.npz", "B-0.npz"):
            assert (homes[0] / name).read_bytes() == (homes[1] / name).read_bytes()


def _ends(directory: Path, backend: str, *, patched: bool = True, job: Any = None, **guess: str) -> dict[str, Any]:
    home = _prepare(directory / "run", patched=patched)
    return finish(_start(directory, [{"directory": home, **(job or {})}], backend, guess))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("silent", "speaking"), [("A", "B"), ("B", "A")])
def test_one_side_without_the_variable_ends_both(tmp_path: Path, silent: str, speaking: str, backend: str) -> None:
    results = _ends(tmp_path, backend, **{speaking: "auto"})
    assert all(result.returncode != 0 for result in results.values())
    # Who comes first says what is wrong; the other one may still wait for it within initialize().
    takes_part = f'expected participant "{silent}" to take part' in results[speaking].stderr
    assert takes_part or "expected PRECICE_LB_GUESS=auto" in results[silent].stderr
    assert all("    participant.initialize()\n" in result.stderr for result in results.values())
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_patched_configuration_without_the_variable_ends_both_before_the_first_window(
    tmp_path: Path, backend: str
) -> None:
    results = _ends(tmp_path, backend)

    assert all(result.returncode != 0 for result in results.values())
    # One of them may learn of it from its partner that is gone.
    assert any("expected PRECICE_LB_GUESS=auto" in result.stderr for result in results.values())
    assert all("    participant.initialize()\n" in result.stderr for result in results.values())
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.precice
@pytest.mark.parametrize(("plain", "ours"), [("A", "B"), ("B", "A")])
def test_a_partner_of_precice_s_own_is_refused(tmp_path: Path, plain: str, ours: str) -> None:
    results = _ends(tmp_path, "libprecice", job={"plain": plain}, A="auto", B="auto")
    assert all(result.returncode != 0 for result in results.values())
    assert f'expected participant "{plain}" to take part' in results[ours].stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_configuration_without_fields_is_one_warning(tmp_path: Path, backend: str) -> None:
    results = _ends(tmp_path, backend, patched=False, A="auto", B="auto")
    for result in results.values():
        assert result.returncode == 0, result.stderr
        (warning,) = warnings_of(result)
        assert "has no fields for it" in warning
        assert "precice-lb guess patch CONFIG -o OUT" in warning
