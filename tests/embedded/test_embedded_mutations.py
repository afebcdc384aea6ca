"""Good configurations, mutated: never a traceback, a hang or a silently different run on the embedded backend."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import FULL_COUNTS
from embedded_cases import points
from embedded_helpers import run_batch
from embedded_mutations import good, mutants
from hypothesis import HealthCheck, given, settings

from precice_lb.embedded.allowed import check_supported
from precice_lb.embedded.assemble import assemble
from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml import Configuration, parse_configuration

EXAMPLES = 4000 if FULL_COUNTS else 700
CHECKED = 200 if FULL_COUNTS else 15
RUN = 60 if FULL_COUNTS else 8
# Some mutants never meet, and each waits so long (seconds).
TIMEOUT = {"PRECICE_LB_TIMEOUT": "20"}


@pytest.fixture(scope="module")
def accepted() -> dict[str, Configuration]:
    """Mutants that the backend accepts for all their participants; all others are refused in one line."""
    found: dict[str, Configuration] = {}

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(mutants())
    def collect(text: str) -> None:
        try:
            configuration = parse_configuration(text)
            for name in configuration.participants:
                check_supported(configuration, name, 1)
                assemble(configuration, name)
        except ConfigurationError as error:
            message = str(error)
        else:
            message = "accepted"
        assert "\n" not in message
        if message != "accepted":
            return
        if text not in good():
            found[text] = configuration

    collect()
    return found


def test_the_good_are_accepted() -> None:
    for text in good():
        configuration = parse_configuration(text)
        for name in configuration.participants:
            check_supported(configuration, name, 1)


def test_mutants_are_accepted_or_refused_in_one_line(accepted: dict[str, Configuration]) -> None:
    assert len(accepted) >= 10


@pytest.mark.precice
def test_what_is_accepted_precice_accepts_too(accepted: dict[str, Configuration], tmp_path: Path) -> None:
    tool = shutil.which("precice-config-validate", path=_beside_libprecice())
    if tool is None:
        pytest.skip("no precice-config-validate on the path or beside libprecice")
    path = tmp_path / "precice-config.xml"
    for text in sorted(accepted)[:: max(1, len(accepted) // CHECKED)]:
        path.write_text(text)
        for name in accepted[text].participants:
            done = subprocess.run(
                [tool, str(path), name, "1"], capture_output=True, text=True, check=False, cwd=tmp_path
            )
            assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{text}"


def _beside_libprecice() -> str:
    """Search path with the directories ``bin`` beside those of libraries."""
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return os.pathsep.join(
        [os.environ.get("PATH", ""), *(str(Path(library).parent / "bin") for library in libraries if library)]
    )


def _roles(configuration: Configuration) -> dict[str, dict[str, object]] | None:
    """What the solvers of a mutant do; None if it takes too long, or solvers could not know their mesh."""
    for scheme in configuration.coupling_schemes:
        windows = [scheme.max_time_windows or np.inf]
        if not scheme.window_size_from_first:
            windows.append((scheme.max_time or np.inf) / scheme.time_window_size)
        if min(windows) > 20 or (scheme.max_iterations or 100) > 100:
            return None
    roles: dict[str, dict[str, object]] = {}
    for number, (name, participant) in enumerate(configuration.participants.items()):
        mesh = f"{name}-Mesh"
        if mesh not in participant.provides:
            return None
        roles[name] = {
            "points": points((13, 9, 7)[number], configuration.meshes[mesh].dimensions, number),
            "writes": [data for home, data in participant.writes if home == mesh],
            "reads": [data for home, data in participant.reads if home == mesh],
            "edges": [[0, 1], [1, 2], [2, 3]],
            **({"step": 0.04} if number == 0 else {}),
        }
    return roles


def _cases(
    accepted: dict[str, Configuration], names: tuple[str, ...], directory: Path
) -> dict[str, dict[str, dict[str, object]]]:
    """Write some of the mutants of these participants; roles by directory."""
    chosen = {}
    for text in sorted(accepted):
        # A log would fill the pipes between these processes, and a port is not free for some time after a run.
        usable = '<log enabled="false" />' in text and "port=" not in text
        if usable and tuple(accepted[text].participants) == names:
            roles = _roles(accepted[text])
            if roles is not None:
                chosen[text] = roles
    cases = {}
    for number, text in enumerate(list(chosen)[:: max(1, len(chosen) // RUN)]):
        home = directory / f"{number:02d}"
        home.mkdir()
        (home / "precice-config.xml").write_text(text)
        cases[home.name] = chosen[text]
    return cases


@pytest.mark.filterwarnings("ignore:loadtxt")
def test_mutants_end_and_raise_nothing_else(accepted: dict[str, Configuration], tmp_path: Path, mpiexec: str) -> None:
    cases = _cases(accepted, ("A", "B"), tmp_path)
    results = run_batch(mpiexec, tmp_path, "embedded", {"A": 1, "B": 1}, cases, TIMEOUT)
    assert len(results) >= 5
    for found in results.values():
        for key, values in found.items():
            if key.endswith("|error"):
                assert str(values[0]).startswith(("CouplingError", "ShapeError")), values[0]


@pytest.mark.precice
@pytest.mark.slow("many runs on two backends")
@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize("names", [("A", "B"), ("A", "B", "C")], ids="".join)
def test_no_mutant_runs_differently(
    names: tuple[str, ...], accepted: dict[str, Configuration], tmp_path: Path, mpiexec: str
) -> None:
    ranks = dict.fromkeys(names, 1)
    cases = _cases(accepted, names, tmp_path)
    embedded = run_batch(mpiexec, tmp_path, "embedded", ranks, cases, TIMEOUT)
    # Where solvers are told of an error here, libprecice may end the process.
    good_ones = {
        name: roles for name, roles in cases.items() if not any(key.endswith("|error") for key in embedded[name])
    }
    assert good_ones
    for name, expected in run_batch(mpiexec, tmp_path, "libprecice", ranks, good_ones).items():
        for key, values in expected.items():
            np.testing.assert_allclose(embedded[name][key], values, rtol=1e-6, atol=1e-6, err_msg=f"{name} {key}")
