"""Steps that start together, each rank on a core of its own, on a real Slurm in both configurations."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import pytest
from calibrate_helpers import changed, write_case
from slurm_helpers import submit

from precice_lb.cli import main

pytestmark = pytest.mark.slurm

# Says where it is, and waits for all ranks of both participants: steps that wait for each other's end never get there.
MEETS = """\
mask=$(echo "$SLURM_CPU_BIND_LIST" | cut -d, -f$((SLURM_LOCALID + 1)))
echo "rank $SLURM_PROCID on $SLURMD_NODENAME with $SLURM_CPUS_ON_NODE bound to ${mask:-none}"
touch "$0.here.$1.$SLURM_PROCID"
for try in $(seq 300); do
  [ "$(ls "$0".here.* | wc -l)" -lt "$2" ] || exit 0
  sleep 0.1
done
echo "only $(ls "$0".here.*) met"
exit 3
"""


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    case = write_case(tmp_path)
    changed(case / "precice-config.xml", ("<m2n:sockets ", '<m2n:sockets network="lo" '))
    (case / "meets.sh").write_text(MEETS)
    monkeypatch.chdir(case)
    return case


def commands(left: int, right: int) -> list[str]:
    """The split's option, and the command of each participant behind it."""
    meets = ["sh", "meets.sh"]
    return ["--", *meets, "Left", str(left + right), ":", *meets, "Right", str(left + right)]


def check_cores(cluster: str, case: Path, left: int, right: int) -> None:
    """Both participants have all their ranks, and no core has two."""
    nodes: dict[str, list[int]] = {}
    steps: dict[tuple[str, str], tuple[int, int]] = {}
    for name, ranks in (("Left", left), ("Right", right)):
        lines = [line.split() for line in (case / f"{name}.log").read_text().splitlines() if line.startswith("rank ")]
        assert sorted(int(line[1]) for line in lines) == list(range(ranks))
        for line in lines:
            if cluster == "B":
                nodes.setdefault(line[3], []).append(int(line[8], 16))
            steps[line[3], name] = (steps.get((line[3], name), (0, 0))[0] + 1, int(line[5]))
    for (node, _), (ranks, processors) in steps.items():
        assert processors == ranks * (2 if cluster == "B" else 1), steps
        assert sum(own for (other, _), (_, own) in steps.items() if other == node) <= 8, steps
    assert all(mask for masks in nodes.values() for mask in masks)
    # Two hardware threads of a core are neighbours in a mask.
    whole = {node: [mask | (mask & 0x55) << 1 | (mask & 0xAA) >> 1 for mask in masks] for node, masks in nodes.items()}
    assert not any(one & other for masks in whole.values() for one, other in combinations(masks, 2)), nodes


@pytest.mark.parametrize(("left", "right"), [(5, 4), pytest.param(3, 2, marks=pytest.mark.slow("on fewer nodes"))])
@pytest.mark.parametrize(
    "options",
    [
        "launcher.name=slurm",
        "launcher.options=['--mem=2500']",
        "launcher.options=['--hint=nomultithread']",
        "participants.Right.options=['--comment=x']",
    ],
)
def test_a_job_starts_its_participants_together(cluster: str, case: Path, options: str, left: int, right: int) -> None:
    asked = ["--set", options, "--write", "launch"]
    assert main(["launch", "--split", f"Left={left},Right={right}", *asked, *commands(left, right)]) == 0
    submit(case / "launch" / "job.sbatch", case)
    check_cores(cluster, case, left, right)


@pytest.mark.usefixtures("activated")
@pytest.mark.parametrize("options", ["--nodes=2 --exclusive --mem=2500", "--ntasks=8 --hint=nomultithread"])
def test_steps_of_an_allocation_start_together(cluster: str, case: Path, options: str) -> None:
    script = case.parent / "job.sh"
    script.write_text(
        f"#!/bin/bash\n#SBATCH --output={case.parent}/job.log\n#SBATCH {options}\n"
        f"{sys.executable} -m precice_lb launch --split Left=5,Right=3 {' '.join(commands(5, 3))}\n"
    )
    submit(script, case)
    check_cores(cluster, case, 5, 3)
