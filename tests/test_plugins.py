"""What other distributions add by entry points: a launcher, a reader and a learner, each one file and one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from calibrate_helpers import DRIVER, runs_of, write_study

MODULE = '''\
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precice_lb.campaign import Launcher
from precice_lb.dataset import Measurements, Samples
from precice_lb.models.posterior import BayesRegressor


@dataclass(kw_only=True)
class OwnLauncher(Launcher):
    greeting: str = ""
    card: Path | None = None

    def command(self, plan, task):
        greeting = self.greeting if self.card is None else str(self.card)
        return ["env", f"GREETING={greeting}", f"PMI_SIZE={task.ranks}", *task.command]


class OwnRegressor(BayesRegressor):
    learner_name = "own-curve"


def read(paths: Sequence[Path], *, scale: float = 1.0):
    """Read the lines of our monitoring.

    Example: precice-lb import lines fluid.txt --set scale=0.001

    Parameters
    ----------
    paths
        Text files of the monitoring.
    scale
        Seconds of one of its units.
    """
    rows = [line.split() for path in paths for line in path.read_text().splitlines()]
    ranks, times = np.array([cells for _, *cells in rows], float).T
    return Measurements({rows[0][0]: Samples(ranks, scale * times)}, sources=tuple(map(str, paths)))
'''
SPLIT = "splits = [{Left=2, Right=1}]"
ENTRY_POINTS = """\
[precice_lb.launchers]
own = site_additions:OwnLauncher
broken = site_broken:Launcher

[precice_lb.readers]
lines = site_additions:read

[precice_lb.learners]
own-curve = site_additions:OwnRegressor
"""


@pytest.fixture
def site(tmp_path: Path) -> dict[str, str]:
    """An environment in which a distribution with these entry points is installed."""
    place = tmp_path / "site"
    info = place / "site_additions-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-additions\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (place / "site_additions.py").write_text(MODULE)
    paths = [str(place), str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200"}


def command(environment: dict[str, str], *words: object, start: str = "-m") -> subprocess.CompletedProcess[str]:
    """Run the command line where the distribution is installed, or a program."""
    tokens = [sys.executable, start, *(["precice_lb"] if start == "-m" else []), *map(str, words)]
    return subprocess.run(tokens, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_reader_of_another_distribution_is_a_command_with_help(site: dict[str, str], tmp_path: Path) -> None:
    said = " ".join(command(site, "import", "lines", "--help").stdout.split())
    for words in ("Text files of the monitoring.", "Seconds of one of its units.", "Example: precice-lb", "--output"):
        assert words in said
    assert "Read the lines of our monitoring." in command(site, "import", "--help").stdout
    (tmp_path / "fluid.txt").write_text("Fluid 2 3000\nFluid 4 1600\n")
    table = tmp_path / "table.csv"
    done = command(site, "import", "lines", tmp_path / "fluid.txt", "--set", "scale=0.001", "--output", table)
    assert done.stdout == f"wrote {table}: 2 samples of Fluid\n", done.stderr
    assert table.read_text() == "participant,ranks,seconds\nFluid,2,3.0\nFluid,4,1.6\n"


def test_a_learner_of_another_distribution_learns(site: dict[str, str], tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"{who},{p},{8 / p + 0.1}" for who in ("A", "B") for p in (1, 2, 4, 8)]
    table.write_text("participant,ranks,seconds\n" + "\n".join(rows) + "\n")
    done = command(site, "recommend", table, "--ranks", "8", "--set", "runs.learner=own-curve", "--format", "json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["learner"] == "own-curve"
    assert values["split"] == {"A": 4, "B": 4}


@pytest.mark.parametrize(
    ("key", "seen_there"),
    [('greeting = "good morning"', "good morning"), ('card = "cards/one.txt"', "{study}/cards/one.txt")],
    ids=["text", "path relative to the study"],
)
def test_a_launcher_of_another_distribution_runs_a_campaign(
    key: str, seen_there: str, site: dict[str, str], tmp_path: Path
) -> None:
    path = write_study(tmp_path, runs=SPLIT, launcher=f'name = "own"\n{key}')
    done = command(site, DRIVER, path, tmp_path / "campaign", start="-c")
    assert [run.outcome for run in runs_of(tmp_path / "campaign")] == ["finished"], done.stderr
    (seen,) = tmp_path.glob("campaign/runs/*/case/Left-seen.json")
    assert json.loads(seen.read_text())["GREETING"] == seen_there.format(study=path.parent)


def test_what_is_wrong_with_an_added_launcher_is_one_line(site: dict[str, str], tmp_path: Path) -> None:
    cases = {
        'name = "own"\ngreting = "x"': "does not know this key, only card, greeting; did you mean 'greeting'?",
        'name = "own"\ngreeting = 3': "launcher.greeting: expected a valid string, found 3",
        'name = "onw"': "expected one of broken, mpiexec, own, slurm, srun, template",
        'name = "broken"': "precice_lb.launchers: 'broken' cannot be loaded from site_broken:Launcher",
    }
    studies = [write_study(tmp_path / str(at), runs=SPLIT, launcher=words) for at, words in enumerate(cases)]
    code = "import sys; from precice_lb.cli import main; print([main(['calibrate', path]) for path in sys.argv[1:]])"
    done = command(site, code, *studies, start="-c")
    assert done.stdout == "[2, 2, 2, 2]\n", done.stderr
    for words, line in zip(cases.values(), done.stderr.splitlines(), strict=True):
        assert words in line


def test_a_name_that_is_taken_is_refused(site: dict[str, str], tmp_path: Path) -> None:
    points = tmp_path / "site" / "site_additions-1.0.dist-info" / "entry_points.txt"
    points.write_text("[precice_lb.readers]\ncsv = site_additions:read\n")
    done = command(site, "import", "csv", tmp_path / "a.csv")
    assert done.returncode == 2
    assert "found 'csv' twice (precice_lb.ingest.csv:import_files and site_additions:read); rename one" in done.stderr
