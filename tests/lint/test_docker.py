"""The images: linted, consistent, and their commands run as far as that goes without a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_helpers import ROOT

from precice_lb.campaign import read_study
from precice_lb.case import read_configuration

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra dev")

DOCKER = ROOT / "docker"
SCRIPTS = [DOCKER / "prepare-case.sh", DOCKER / "slurm" / "start-slurm.sh"]


def test_every_requirement_of_the_package_is_pinned() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(
        r'^  "([\w-]+)[>=<]+[\d.]+"', text[text.index("dependencies = [") :].split("]")[0], re.MULTILINE
    )
    pinned = {line.split("==")[0].lower() for line in (DOCKER / "requirements.txt").read_text().splitlines()}
    assert len(needed) >= 9
    assert {name.lower() for name in needed} <= pinned


def _prepare(target: Path, *interface: str) -> subprocess.CompletedProcess[str]:
    case = str(ROOT / "tutorials" / "pulse")
    environment = dict(os.environ, PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    environment["PYTHONPATH"] = str(ROOT)
    command = [str(SCRIPTS[0]), case, str(target), *interface]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_case_is_copied_for_participants_that_meet_elsewhere(tmp_path: Path) -> None:
    for _ in range(2):
        done = _prepare(tmp_path, "eth0")
        assert done.returncode == 0, done.stderr
    configuration = tmp_path / "case" / "precice-config.xml"
    assert read_configuration(configuration).m2ns[0].exchange_directory == str(tmp_path / "exchange")
    assert 'network="eth0"' in configuration.read_text(encoding="utf-8")
    assert (tmp_path / "case" / "solver-python" / "pulse.py").is_file()
    assert _prepare(tmp_path).returncode == 2


def test_the_study_of_the_slurm_container_is_accepted(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tutorials" / "pulse", tmp_path / "tutorials" / "pulse")
    (tmp_path / "configs").mkdir()
    shutil.copy(DOCKER / "slurm" / "pulse-slurm.toml", tmp_path / "configs")
    study = read_study(tmp_path / "configs" / "pulse-slurm.toml")
    assert study.names == ("Inner", "Outer")
    assert study.launcher.name == "slurm"


@pytest.mark.slurm
@pytest.mark.slow("daemons of a Slurm")
def test_the_slurm_of_the_container_runs_a_job_and_leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    if missing := [name for name in ("slurmctld", "slurmd", "munged", "srun") if shutil.which(name) is None]:
        pytest.skip(f"no Slurm on this machine: {', '.join(missing)} missing")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root rights here")
    root = tmp_path_factory.mktemp("s")
    # The controller reads no home directory; the user is whoever runs this.
    done = subprocess.run(
        [str(SCRIPTS[1]), str(root), "root", "srun", "--nodes=2", "--ntasks=4", "printenv", "SLURMD_NODENAME"],
        env={**os.environ, "SLURM_PORT": "27100"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(set(done.stdout.split())) == ["n0", "n1"]
    left = subprocess.run(["pgrep", "-f", str(root)], capture_output=True, text=True, check=False)
    assert left.stdout == ""
