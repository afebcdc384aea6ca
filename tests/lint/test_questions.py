"""Answers for who knows preCICE and not this project, within two clicks of README and of the documentation's start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_helpers import ROOT, anchors, links

# What is asked, and where the answer stands.
ANSWERS = {
    "My solid waits: how long, and what for?": "symptoms.md#my-solid-waits",
    "What does advance spend?": "symptoms.md#what-does-advance-spend",
    "preCICE start-up takes minutes: why?": "symptoms.md#precice-start-up-takes-minutes",
    "How many ranks for CalculiX, and for OpenFOAM beside it?": "learn/openfoam-calculix.md",
    "Does recording change results, or slow the run?": "questions.md#does-recording-change-results-or-slow-the-run",
    "Does it work without solvers in Python?": "how-to/compiled-solvers.md",
    "Which versions of preCICE?": "questions.md#which-versions-of-precice-mpi-and-python",
    "What about Slurm?": "how-to/cluster.md#slurm-from-a-login-node",
    "How is it cited?": "questions.md#how-do-i-cite-it",
    "Where do I report something, or contribute?": "questions.md#where-do-i-ask-report-or-contribute",
}
CLICKS = 2


def _linked(page: Path) -> set[Path]:
    """Pages that a page links to, also by the lists of contents that the documentation's builder reads."""
    targets = [page.parent / target.partition("#")[0] for target in links(page) if ":" not in target.partition("#")[0]]
    for contents in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
        entries = [line for line in contents.splitlines() if line and line[0] != ":"]
        targets += [path for entry in entries for path in page.parent.glob(f"{entry}.md")]
    return {path.resolve() for path in targets if path.suffix == ".md"}


@pytest.mark.parametrize("start", ["README.md", "docs/index.md"])
def test_answers_are_two_clicks_away(start: str) -> None:
    reached = {ROOT / start}
    for _ in range(CLICKS):
        reached |= {path for page in reached for path in _linked(page)}
    for question, answer in ANSWERS.items():
        page, _, anchor = answer.partition("#")
        assert ROOT / "docs" / page in reached, question
        assert not anchor or anchor in anchors(ROOT / "docs" / page), question
