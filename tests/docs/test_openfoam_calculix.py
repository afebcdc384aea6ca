"""The study of docs/learn/openfoam-calculix.md, read beside files named and laid out as in preCICE's tutorial.

Neither solver is at hand: the files are of our own, and the programs do nothing.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from calibrate_helpers import program
from embedded.embedded_helpers import write_configuration
from markdown_helpers import ROOT, blocks

from precice_lb.campaign import read_study
from precice_lb.layout import Layouts

PAGE = ROOT / "docs" / "learn" / "openfoam-calculix.md"


def test_the_study_of_the_page_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = tmp_path / "tutorials" / "perpendicular-flap"
    system = case / "fluid-openfoam" / "system"
    system.mkdir(parents=True)
    (case / "solid-calculix").mkdir()
    write_configuration(
        case / "precice-config.xml",
        participants={"Fluid": [], "Solid": []},
        exchanges=[("parallel-explicit", "Fluid", "Solid", "Force:Fluid>Solid Displacement:Solid>Fluid")],
        directory="..",
    )
    (system / "decomposeParDict").write_text(
        "numberOfSubdomains 4;\n\nsimpleCoeffs\n{\n    n               (2 2 1);\n}\n"
    )
    programs = tmp_path / "bin"
    for name in ("pimpleFoam", "ccx_preCICE", "decomposePar", "mpiexec"):
        program(programs / name)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    template = next(block for block in blocks(PAGE) if "decomposeParDict.in" in block.text and block.language == "bash")
    subprocess.run(["bash", "-ec", template.text], cwd=case, check=True)
    (text,) = (block.text for block in blocks(PAGE) if block.language == "toml")
    (tmp_path / "flap.toml").write_text(text.replace("/usr/bin/mpiexec", str(programs / "mpiexec")))

    study = read_study(tmp_path / "flap.toml")

    fluid, solid = study.participants
    assert study.layouts == {"Solid": Layouts(1, None)}
    assert study.bounds["Solid"] == (1, 4)
    assert solid.environment == {"CCX_NPROC_EQUATION_SOLVER": "{threads}"}
    assert [fluid.command_at(ranks) for ranks in (1, 3)] == ["pimpleFoam", "pimpleFoam -parallel"]
    (name,) = fluid.templates
    template_text = (case / fluid.directory / name).read_text()
    assert "numberOfSubdomains {ranks};" in template_text
    assert "({ranks} 1 1);" in template_text
