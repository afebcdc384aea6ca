"""The report as a page: the run that it shows, its figures, its files, and names that must stay text."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_helpers import SPLITS, Elements, store_evidence, table_evidence
from report_helpers import HOSTILE, configuration, write_campaign, write_recommended_split, write_run
from store_helpers import START, row, write_store

from precice_lb.cli import main
from precice_lb.dataset import load_runs
from precice_lb.report import Evidence, Page, Paragraph, build_page, write_report
from precice_lb.report.blocks import CodeBlock


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("campaign")
    write_campaign(directory, SPLITS, windows=8, degrees_of_freedom={"Inner": 200, "Outer": 100})
    return directory


@pytest.fixture(scope="module")
def recorded(campaign: Path) -> Evidence:
    return store_evidence(campaign, 12, present={"Inner": 6, "Outer": 6})


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


@pytest.fixture(scope="module")
def repeats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four repeats of the run on 6 and 3 ranks, in the order of their start."""
    directory = tmp_path_factory.mktemp("repeats")
    for number, (name, seconds) in enumerate({"a": 5.0, "b": 1.0, "c": 2.0, "d": 1.5}.items()):
        plant(directory / name, number, seconds)
    return directory


@pytest.mark.parametrize(
    ("count", "shown"),
    # Of four runs the faster one of both in the middle.
    [(4, "Inner:6 Outer:3 (d)"), (3, "Inner:6 Outer:3 (c)"), (1, "Inner:6 Outer:3 (a)")],
)
def test_the_shown_run_is_the_repeat_with_the_median_window(
    recorded: Evidence, repeats: Path, count: int, shown: str
) -> None:
    runs = [*recorded.runs[:2], *load_runs([repeats])[:count]]

    evidence = dataclasses.replace(recorded, runs=runs)

    assert evidence.shown_run.name == shown
    assert len(evidence.repeats) == count


def test_the_page_says_of_how_many_repeats_the_shown_run_is_the_median(recorded: Evidence, repeats: Path) -> None:
    evidence = dataclasses.replace(recorded, runs=[*recorded.runs[:2], *load_runs([repeats])])

    text = texts(build_page(evidence), "window")

    assert "Measured in run Inner:6 Outer:3 (d) on 6 + 3 ranks" in text
    assert "the median of its 4 runs" in text


def test_the_shown_run_is_of_the_recommended_versions(recorded: Evidence, tmp_path: Path) -> None:
    for number, version in enumerate(("cpu", "gpu")):
        plant(tmp_path / version, number, 1.0, version=version)
    recommendation = dataclasses.replace(recorded.recommendation, versions={"Inner": "gpu"})

    evidence = dataclasses.replace(recorded, recommendation=recommendation, runs=load_runs([tmp_path]))

    assert evidence.shown_run.versions == {"Inner": "gpu"}
    assert len(evidence.repeats) == 1


def test_a_run_without_windows_after_warm_up_is_not_shown_beside_others(recorded: Evidence, tmp_path: Path) -> None:
    """It has the recommended split, and the other run another one."""
    split = recorded.recommendation.split
    write_run(tmp_path / "short", split, windows=1, run="short")
    (short,) = load_runs([tmp_path])

    beside = dataclasses.replace(recorded, runs=[short, recorded.runs[0]])
    alone = dataclasses.replace(recorded, runs=[short])

    assert beside.shown_run.name == recorded.runs[0].name
    assert alone.shown_run.name == "short"


def test_launch_lines_set_the_threads_of_each_rank(tmp_path: Path) -> None:
    write_campaign(tmp_path, SPLITS, threads=2)
    evidence = store_evidence(tmp_path, 24)

    page = build_page(evidence)

    (code,) = [block for section in page.sections for block in section.blocks if isinstance(block, CodeBlock)]
    inner, outer = (evidence.recommendation.split[name] // 2 for name in ("Inner", "Outer"))
    assert inner > outer
    assert code.text.splitlines() == [
        f"OMP_NUM_THREADS=2 mpiexec -n {inner} '<solver of Inner>' &",
        f"OMP_NUM_THREADS=2 mpiexec -n {outer} '<solver of Outer>' &",
        "wait",
    ]


def test_the_window_says_with_how_many_threads_the_shown_run_ran(recorded: Evidence, tmp_path: Path) -> None:
    write_run(tmp_path / "mixed", {"Inner": 3}, threads=2, run="mixed")
    write_run(tmp_path / "mixed", {"Outer": 3}, run="mixed")

    text = texts(build_page(dataclasses.replace(recorded, runs=load_runs([tmp_path]))), "window")

    assert "Measured in run mixed on 3 x 2 threads + 3, the recorded split nearest" in text


def test_start_scripts_take_the_place_of_launch_lines_and_say_that_they_have_no_time_limit(
    recorded: Evidence, tmp_path: Path
) -> None:
    job, script = tmp_path / "job.sbatch", tmp_path / "run.sh"
    job.write_text(
        "#!/bin/sh\n# No time limit is asked for: windows are not known; submit with sbatch --time=HH:MM:SS\n"
    )
    script.write_text("#!/bin/sh\n")

    page = build_page(dataclasses.replace(recorded, start_scripts=(job, script)))

    (section,) = [section for section in page.sections if section.name == "recommendation"]
    (code,) = [block for block in section.blocks if isinstance(block, CodeBlock)]
    assert code.text == f"sbatch {job}\n# or\n{script}"
    missing = [block.text for block in section.blocks if isinstance(block, Paragraph) and block.role == "missing"]
    assert missing == ["job.sbatch asks for no time limit: windows are not known; submit with sbatch --time=HH:MM:SS"]


@pytest.mark.parametrize(("slowest", "percentage"), [(0.4, "58 %"), (0.21, None)])
def test_ranks_out_of_balance_are_warned_of(
    recorded: Evidence, tmp_path: Path, slowest: float, percentage: str | None
) -> None:
    """Of six ranks of Inner five compute for 0.2 s of each window of 0.5 s."""
    for who, size in (("Inner", 6), ("Outer", 3)):
        for rank in range(size):
            solve = slowest if (who, rank) == ("Inner", 0) else 0.2
            rows = [row(w, solve, 0.5 - solve, 0.5 - solve) for w in range(1, 8)]
            write_store(tmp_path, rows, who, rank, size, configuration=configuration())

    page = build_page(dataclasses.replace(recorded, runs=load_runs([tmp_path])))

    (section,) = [section for section in page.sections if section.name == "window"]
    warnings = [block.text for block in section.blocks if isinstance(block, Paragraph) and block.role == "warning"]
    if percentage is None:
        # The mean of 0.2 s over 0.21 s: 96 %.
        assert warnings == []
    else:
        # Five times 0.2 s and 0.4 s are 0.233 s in the mean, over 0.4 s.
        assert [text.partition(":")[0] for text in warnings] == [f"Ranks of Inner have a load balance of {percentage}"]


def test_sections_of_a_page_in_their_order_and_which_are_folded(recorded: Evidence) -> None:
    page = build_page(recorded)

    assert [section.name for section in page.sections] == [
        "recommendation", "window", "scaling", "splits", "next", "quality", "missing", "provenance",
    ]  # fmt: skip
    assert [section.name for section in page.sections if section.folded] == ["provenance"]


def test_a_page_of_three_participants_has_no_curve_over_the_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = build_page(table_evidence(tmp_path, ["Fluid", "Solid", "Heat"], 24))

    assert [chart.name for chart in page.charts] == ["comparison", "scaling"]
    # No section failed.
    assert capsys.readouterr().err == ""
    assert "could not be made" not in " ".join(texts(page, section.name) for section in page.sections)


# --- figures and files ----------------------------------------------------------------------------------------------


def test_a_page_of_two_participants_has_three_figures_in_their_sections(recorded: Evidence, tmp_path: Path) -> None:
    page = build_page(recorded)

    assert [chart.name for chart in page.charts] == ["comparison", "scaling", "landscape"]
    written = write_report(page, tmp_path / "out", tmp_path / "drawn")
    assert [str(path.relative_to(tmp_path)) for path in written] == [
        "out/report.html", "drawn/comparison.svg", "drawn/scaling.svg", "drawn/landscape.svg",
    ]  # fmt: skip
    elements = Elements(written[0].read_text()).elements
    in_section = {}
    section = ""
    for tag, attributes in elements:
        if tag == "section":
            section = str(attributes["id"])
        elif tag == "figure" and str(attributes.get("id", "")).startswith("chart-"):
            in_section[attributes["id"]] = section
    assert in_section == {
        "chart-comparison": "recommendation", "chart-scaling": "scaling", "chart-landscape": "splits",
    }  # fmt: skip


def test_the_figures_of_the_page_are_those_that_are_written(recorded: Evidence, tmp_path: Path) -> None:
    """Elements of the drawings get names of their own in the page; what they draw stays."""
    page, *figures = write_report(build_page(recorded), tmp_path / "out", tmp_path / "drawn")

    def paths(text: str) -> list[str]:
        return [str(attributes["d"]) for attributes in Elements(text).named("path")]

    in_page = paths(page.read_text())
    drawn = [paths(figure.read_text()) for figure in figures]
    assert [len(figure) > 20 for figure in drawn] == [True, True, True]
    assert in_page == [path for figure in drawn for path in figure]


# --- names that are not harmless -------------------------------------------------------------------------------------

HOSTILE_NAMES = [*HOSTILE, "漢字かな交じり文", "مرحبا", '"><img src=x onerror=alert(1)>']
SVG = "{http://www.w3.org/2000/svg}"
# What pages and drawings consist of: nothing that loads or runs anything.
HARMLESS_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "div", "span"),
    *("h1", "h2", "p", "a", "strong", "ol", "li", "dl", "dt", "dd", "pre", "code", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    *("svg", "g", "defs", "path", "use", "text", "rect", "pattern", "clippath"),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The report of participants whose names are not harmless: its page, and its figures."""
    directory = tmp_path_factory.mktemp("hostile")
    page = build_page(table_evidence(directory, HOSTILE_NAMES, 24))
    return write_report(page, directory / "out", directory / "drawn")


def test_hostile_names_bring_no_elements_into_the_page(hostile: list[Path]) -> None:
    page = Elements(hostile[0].read_text())

    tags = {tag for tag, _ in page.elements}
    assert tags >= {"section", "table", "svg", "text"}
    assert tags <= HARMLESS_TAGS
    names = {name for _, attributes in page.elements for name in attributes}
    assert names >= {"id", "class", "d"}
    assert [name for name in names if name.startswith("on")] == []


def test_nothing_of_the_page_is_loaded_from_elsewhere(hostile: list[Path]) -> None:
    page = Elements(hostile[0].read_text())

    assert "default-src 'none'" in str(page.named("meta"))
    links = []
    for _, attributes in page.elements:
        links += [str(attributes[name]) for name in ("href", "xlink:href", "src") if name in attributes]
    # Of the list of sections, and of markers in drawings.
    assert "#recommendation" in links
    assert [link for link in links if not link.startswith("#")] == []


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "漢字かな交じり文",
        "مرحبا",
        r"two\nlines",
        # In full once, under provenance.
        "n" * 500,
    ],
)
def test_hostile_names_are_texts_of_the_page(hostile: list[Path], text: str) -> None:
    html = hostile[0].read_text()

    assert text in Elements(html).text
    assert "\x1b" not in html


def test_hostile_names_are_texts_of_the_figures(hostile: list[Path]) -> None:
    # Only two participants have a curve over the split.
    assert [path.name for path in hostile[1:]] == ["comparison.svg", "scaling.svg"]
    for path in hostile[1:]:
        drawing = ElementTree.parse(path).getroot()
        words = " ".join("".join(element.itertext()) for element in drawing.iter(f"{SVG}text"))
        # Names of more than 16 characters are written without their middle.
        for name in ("<script…/script>", "[bold red]x[/]", "$x^2$_y_`z`", "a|b", '"><img …lert(1)>'):
            assert name in words
        assert list(drawing.iter(f"{SVG}path"))
        assert list(drawing.iter(f"{SVG}script")) == []


# --- command --------------------------------------------------------------------------------------------------------


def test_a_campaigns_budget_is_remembered(campaign: Path, tmp_path: Path) -> None:
    write_recommended_split(campaign, {"Inner": 9, "Outer": 5})
    assert main(["report", str(campaign), "-o", str(tmp_path / "out")]) == 0
    shown = Elements((tmp_path / "out" / "report.html").read_text()).text.replace("\xa0", " ")
    assert "parallel-explicit Inner, Outer, 14 ranks" in shown
