"""The report as a page: its sections, what is missing, its files, and names that must stay text."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from page_helpers import SPLITS, Elements, store_evidence, table_evidence
from report_helpers import HOSTILE, configuration, write_campaign, write_recommended_split
from store_helpers import START, row, write_store

from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.report import Evidence, Page, Paragraph, build_page, write_report


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("campaign")
    write_campaign(directory, SPLITS, windows=8, degrees_of_freedom={"Inner": 200, "Outer": 100})
    return directory


@pytest.fixture(scope="module")
def recorded(campaign: Path) -> Evidence:
    return store_evidence(campaign, 12, present={"Inner": 6, "Outer": 6})


@pytest.fixture(scope="module")
def page(recorded: Evidence) -> Page:
    return build_page(recorded)


def texts(page: Page, name: str) -> str:
    section = next(each for each in page.sections if each.name == name)
    return " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))


# --- sections -------------------------------------------------------------------------------------------------------


def plant(directory: Path, number: int, seconds: float, **of_inner: str) -> None:
    """A repeat of the run on 6 and 3 ranks, whose windows take so long."""
    rows = [row(w, seconds, 0.1, 0.1) for w in range(1, 8)]
    for who, size in (("Inner", 6), ("Outer", 3)):
        more = {"configuration": configuration(), "started_unix_ns": START + number * 10**12}
        for rank in range(size):
            write_store(directory, rows, who, rank, size, **more, **(of_inner if who == "Inner" else {}))


def test_the_shown_run_is_the_repeat_with_the_median_window(recorded: Evidence, tmp_path: Path) -> None:
    """The first repeat was shown, whether it was the fastest or the slowest."""
    for number, (name, seconds) in enumerate({"a": 5.0, "b": 1.0, "c": 2.0, "d": 1.5}.items()):
        plant(tmp_path / name, number, seconds)
    runs = load_runs([tmp_path])
    shown = []
    for chosen in (runs, runs[:3], runs[:1]):
        evidence = dataclasses.replace(recorded, runs=[*recorded.runs[:2], *chosen])
        shown.append((evidence.shown_run.name, len(evidence.repeats)))
    assert shown == [("Inner:6 Outer:3 (d)", 4), ("Inner:6 Outer:3 (c)", 3), ("Inner:6 Outer:3 (a)", 1)]
    assert "the median of its 4 runs" in texts(
        build_page(dataclasses.replace(recorded, runs=[*recorded.runs[:2], *runs])), "window"
    )


def test_the_shown_run_is_of_the_recommended_versions(recorded: Evidence, tmp_path: Path) -> None:
    for number, version in enumerate(("cpu", "gpu")):
        plant(tmp_path / version, number, 1.0, version=version)
    recommendation = dataclasses.replace(recorded.recommendation, versions={"Inner": "gpu"})
    evidence = dataclasses.replace(recorded, recommendation=recommendation, runs=load_runs([tmp_path]))
    assert (evidence.shown_run.versions, len(evidence.repeats)) == ({"Inner": "gpu"}, 1)


# --- files ----------------------------------------------------------------------------------------------------------


# --- names that are not harmless -------------------------------------------------------------------------------------


def test_hostile_names_come_out_as_text(tmp_path: Path) -> None:
    names = [*HOSTILE, "漢字かな交じり文", "مرحبا", '"><img src=x onerror=alert(1)>']
    page = build_page(table_evidence(tmp_path, names, 24))
    path, *figures = write_report(page, tmp_path / "out", tmp_path / "drawn")
    html = path.read_text()
    found = Elements(html)
    # Nothing is loaded from elsewhere, and nothing runs.
    assert not {tag for tag, _ in found.elements} & {
        "script",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "img",
    }
    assert "default-src 'none'" in str(found.named("meta"))
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    for text in (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "漢字かな交じり文",
        "مرحبا",
        r"two\nlines",
    ):
        assert text in found.text
    assert "\x1b" not in html
    assert "n" * 500 in found.text  # in full once, under provenance
    assert not any("<script" in figure.read_text() for figure in figures)


# --- command --------------------------------------------------------------------------------------------------------


def test_a_campaigns_budget_is_remembered(campaign: Path, tmp_path: Path) -> None:
    write_recommended_split(campaign, {"Inner": 9, "Outer": 5})
    assert main(["report", str(campaign), "-o", str(tmp_path / "out")]) == 0
    shown = Elements((tmp_path / "out" / "report.html").read_text()).text.replace("\xa0", " ")
    assert "parallel-explicit Inner, Outer, 14 ranks" in shown
