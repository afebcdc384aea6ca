"""Configurations for tests of the first guess: two solvers with a mesh each and a serial scheme, and variants of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def before(part: str, *new: str) -> tuple[str, str]:
    """Edit that puts elements before another."""
    return part, "\n    ".join([*new, part])


CASE = (Path(__file__).parent / "data" / "configurations" / "implicit-pair.xml").read_text(encoding="utf-8")

MEASURE = '<absolute-convergence-measure data="Heat" mesh="B-Mesh" limit="1e-6" />'
WRITE = '<write-data name="Heat"'
PARALLEL = [("serial-implicit", "parallel-implicit"), ("</coupling-scheme:serial", "</coupling-scheme:parallel")]
AITKEN = [("<acceleration:IQN-ILS>", "<acceleration:aitken>"), ("</acceleration:IQN-ILS>", "</acceleration:aitken>")]
# A third solver, with an explicit scheme for data of B.
THIRD_OF_ITS_OWN = [
    (
        "  <m2n:sockets",
        '  <participant name="C">\n    <provide-mesh name="C-Mesh" />\n    <receive-mesh name="B-Mesh" from="B" />\n'
        '    <read-data name="Own" mesh="C-Mesh" />\n    <mapping:nearest-neighbor direction="read" from="B-Mesh" '
        'to="C-Mesh" constraint="consistent" />\n  </participant>\n  <m2n:sockets acceptor="C" connector="B" />\n'
        "  <m2n:sockets",
    ),
    before("<participant name=", '<mesh name="C-Mesh" dimensions="2">', '  <use-data name="Own" />', "</mesh>"),
    (
        "</precice-configuration>",
        '  <coupling-scheme:serial-explicit>\n    <participants first="B" second="C" />\n    <max-time value="1" />\n'
        '    <time-window-size value="0.1" />\n    <exchange data="Own" mesh="B-Mesh" from="B" to="C" />\n'
        "  </coupling-scheme:serial-explicit>\n</precice-configuration>",
    ),
    before('<data:scalar name="Heat" />', '<data:scalar name="Own" />'),
    ('<mesh name="B-Mesh" dimensions="2">', '<mesh name="B-Mesh" dimensions="2"><use-data name="Own" />'),
    before(WRITE, '<write-data name="Own" mesh="B-Mesh" />'),
]


def edited(edits: list[tuple[str, str]], text: str = CASE) -> str:
    """Exchange the first of each; all must be there."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def refused_by_libprecice(path: Path) -> str:
    """What libprecice's own check of a configuration says against it, which may be cut; nothing where it would run."""
    programs = {"precice-config-validate": [], "precice-tools": ["check"]}
    for name, words in programs.items():
        if (program := shutil.which(name)) is not None:
            done = subprocess.run([program, *words, path], cwd=path.parent, capture_output=True, text=True, check=False)
            return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    pytest.skip("no precice-config-validate and no precice-tools on the path: they are installed with libprecice")
