"""The files that `precice-lb report` writes: a page that needs no other file, and figures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_helpers import Elements
from report_helpers import write_campaign, write_recommended_split

from precice_lb.cli import main

TABLE = Path(__file__).parents[1] / "data" / "schroeder2019.csv"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report with its figures, and return the directory in which both lie."""
    directory = tmp_path_factory.mktemp("written")
    sizes = ["--ranks", "448", "--present", "Inner=224,Outer=224"]
    places = ["-o", str(directory / "page"), "--figures", str(directory / "figures")]
    assert main(["report", str(TABLE), *sizes, *places]) == 0
    return directory


def test_every_figure_of_the_page_is_written_as_svg(written: Path) -> None:
    page = (written / "page" / "report.html").read_text(encoding="utf-8")
    names = re.findall(r'<figure id="chart-([^"]+)"', page)
    figures = sorted((written / "figures").iterdir())

    assert len(names) >= 3
    assert [path.name for path in figures] == sorted(f"{name}.svg" for name in names)
    for path in figures:
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        # The background, the axes and the curves.
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5


def test_the_page_is_one_file_that_loads_nothing(written: Path) -> None:
    assert [path.name for path in (written / "page").iterdir()] == ["report.html"]
    page = Elements((written / "page" / "report.html").read_text(encoding="utf-8"))

    loading = [tag for tag, _ in page.elements if tag in ("script", "link", "iframe", "object", "embed", "base")]
    assert loading == []
    sources = [attributes[name] for _, attributes in page.elements for name in ("src", "srcset") if name in attributes]
    assert [source for source in sources if not str(source).startswith("data:")] == []
    policies = [attributes.get("content") for tag, attributes in page.elements if tag == "meta"]
    (policy,) = [text for text in policies if text and text.startswith("default-src")]
    # Scripts fall under the default.
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy


def test_no_figure_is_written_where_none_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(TABLE), "--ranks", "448"]) == 0

    assert capsys.readouterr().out == "report: precice-lb-report/report.html\n"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [Path(tmp_path, "precice-lb-report/report.html")]


def test_budget_is_that_of_the_largest_run_where_none_is_given(tmp_path: Path) -> None:
    splits = [{"Inner": 2, "Outer": 2}, {"Inner": 6, "Outer": 3}, {"Inner": 3, "Outer": 2}]
    write_campaign(tmp_path / "runs", splits)

    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "page")]) == 0

    page = Elements((tmp_path / "page" / "report.html").read_text(encoding="utf-8"))
    # The second run had nine ranks.
    assert "parallel-explicit Inner, Outer, 9 ranks" in page.text


def test_curves_are_those_of_the_recommended_versions_and_a_table_has_the_others(tmp_path: Path) -> None:
    """The aorta of Totounferoush, whose Fluid is recommended on GPUs, as the page on versions has it."""
    machine = ["--nodes", "8", "--cores-per-node", "36"]
    for setting in (
        "machine.gpus_per_node=8",
        "machine.whole_nodes=true",
        "participants.Fluid:gpu.gpus_per_rank=1",
        "case.parameter.fluid_cells=38",
    ):
        machine += ["--set", setting]
    table = TABLE.with_name("totounferoush2022_aorta.csv")
    places = ["-o", str(tmp_path / "page"), "--figures", str(tmp_path / "figures")]
    assert main(["report", str(table), *machine, *places]) == 0

    scaling = (tmp_path / "figures" / "scaling.svg").read_text(encoding="utf-8")
    assert re.findall(r">(Fluid[^<]*)<", scaling) == ["Fluid (gpu): 16 ranks"]
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr>.*?</tr>", page, flags=re.DOTALL)
    versions = [row for row in rows if "Fluid cpu" in row or "Fluid gpu" in row]
    assert len(versions) == 2
    assert "216 + 72" in next(row for row in versions if "Fluid cpu" in row)
    assert "16 + 216" in next(row for row in versions if "Fluid gpu" in row)


@pytest.mark.parametrize(
    ("written", "is_named"),
    [({"Inner": 6, "Outer": 3}, True), ({"Inner": 5, "Outer": 4}, False)],
    ids=["of the recommended split", "of another split"],
)
def test_scripts_are_named_where_they_start_the_recommended_split(
    written: dict[str, int], is_named: bool, tmp_path: Path
) -> None:
    """Of nine ranks six of Inner and three of Outer are recommended."""
    runs = tmp_path / "runs"
    write_campaign(runs, [{"Inner": 2, "Outer": 2}, {"Inner": 6, "Outer": 3}, {"Inner": 3, "Outer": 2}])
    write_recommended_split(runs, written)
    (runs / "launch").mkdir()
    (runs / "launch" / "run.sh").write_text("#!/bin/sh\n")

    assert main(["report", str(runs), "-o", str(tmp_path / "page")]) == 0

    page = Elements((tmp_path / "page" / "report.html").read_text(encoding="utf-8"))
    assert "Give Inner 6 ranks and Outer 3 ranks" in page.text
    assert ("launch/run.sh" in page.text) == is_named
