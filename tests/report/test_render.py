"""Blocks as screens, as Markdown and as pages, what cannot be made, and files that are never half written."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from page_helpers import Elements

from precice_lb.exceptions import DataError
from precice_lb.report import Page, console, markdown, page_html, rendered, write_report
from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Missing, Paragraph, Section, Table
from precice_lb.report.render import attempted, write_files


def screen(blocks: Sequence[Block]) -> list[str]:
    """Return the lines of a screen, without spaces at their ends."""
    stream = io.StringIO()
    console(stream).print(rendered(blocks))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


TABLE = Table("Times", ("participant", "seconds"), (("Inner", "1.5"), ("Outer", "22.5")))


# --- screens -------------------------------------------------------------------------------------------------------


def test_warnings_are_the_last_lines_of_a_screen() -> None:
    blocks = [Paragraph("too few windows", "warning"), Paragraph("the answer", "lead"), Paragraph("a gap", "missing")]

    assert screen(blocks) == ["the answer", "a gap", "warning: too few windows"]


def test_numbers_of_a_table_are_flush_right_and_words_flush_left() -> None:
    assert screen([TABLE]) == [
        "Times",
        "participant  seconds",
        "────────────────────",
        "Inner            1.5",
        "Outer           22.5",
    ]


def test_a_blank_line_stands_before_a_table_and_after_it() -> None:
    lines = screen([Paragraph("before"), TABLE, Paragraph("after")])

    assert lines[:3] == ["before", "", "Times"]
    assert lines[-3:] == ["Outer           22.5", "", "after"]


@pytest.mark.parametrize(
    "block",
    [
        Paragraph("a\x1b[31mb"),
        Paragraph("text", "warning", "a\x1b[31mb"),
        DefinitionList((("a\x1b[31mb", "text"),)),
        DefinitionList((("key", "a\x1b[31mb"),)),
        Table("a\x1b[31mb", ("head",), (("cell",),)),
        Table("title", ("head",), (("a\x1b[31mb",),)),
    ],
)
def test_control_characters_are_written_out_on_a_screen_and_in_markdown(block: Block) -> None:
    for text in ("\n".join(screen([block])), markdown([block]).replace(r"\\", "\\").replace(r"\[", "[")):
        assert r"a\x1b[31mb" in text
        assert "\x1b" not in text


def test_markup_and_emoji_of_rich_are_texts_on_a_screen() -> None:
    assert screen([Paragraph("[bold]x[/bold] :smile:")]) == ["[bold]x[/bold] :smile:"]


# --- Markdown ------------------------------------------------------------------------------------------------------


def test_markdown_of_blocks() -> None:
    blocks = [
        Paragraph("Slower.", "lead"),
        TABLE,
        DefinitionList((("host", "n1"),)),
        Paragraph("Few windows.", "warning"),
    ]

    assert markdown(blocks) == (
        "Slower.\n\n"
        "**Times**\n\n| participant | seconds |\n| --- | ---: |\n| Inner | 1.5 |\n| Outer | 22.5 |\n\n"
        "**host:** n1\n\n"
        "**warning:** Few windows.\n"
    )


@pytest.mark.parametrize("mark", ["*", "_", "`", "<", "[", "|", "#", "&", "@", "\\"])
def test_marks_of_markdown_are_escaped_wherever_they_are(mark: str) -> None:
    text = f"a{mark}b"
    blocks = [Paragraph(text), Table(text, (text,), ((text,),)), DefinitionList(((text, text),))]

    written = markdown(blocks)

    # The paragraph; title, head and cell of the table; key and text of the list.
    assert written.count(f"a\\{mark}b") == 6
    assert written.count("b") == 6


# --- pages ---------------------------------------------------------------------------------------------------------


def figure() -> Figure:
    drawing = Figure()
    drawing.subplots().plot([1, 2])
    return drawing


def page_of(*blocks: Block) -> Page:
    return Page("title", "subtitle", (Section("first", "First", blocks),))


def test_texts_of_all_blocks_are_escaped_in_a_page() -> None:
    text = "<b id='x'>&amp;</b>"
    blocks = [
        Paragraph(text, "warning", text),
        Table(text, (text,), ((text,),)),
        DefinitionList(((text, text),)),
        CodeBlock(text, text),
        Chart("chart", text, figure()),
    ]
    section = Section("first", text, tuple(blocks))

    page = Elements(page_html(Page(text, text, (section,))))

    assert page.named("b") == []
    # Title, heading and subtitle of the page; the section's in the list and above it; head and text of the paragraph,
    # title, head and cell of the table, key and text of the list, caption and text of the code, caption of the chart.
    assert page.text.count(text) == 15
    assert [svg["aria-label"] for svg in page.named("svg")] == [text]
    assert text in [region["aria-label"] for region in page.named("div") if "aria-label" in region]


def test_control_characters_are_written_out_in_a_page() -> None:
    page = page_html(page_of(Paragraph("a\x1b[31mb")))

    assert r"a\x1b[31mb" in page
    assert "\x1b" not in page


def test_numbers_stay_on_the_line_of_their_per_cent_sign() -> None:
    assert '<p class="plain">5\N{NO-BREAK SPACE}% less</p>' in page_html(page_of(Paragraph("5 % less")))


def test_figures_of_one_page_have_ids_of_their_own_and_no_style_sheets() -> None:
    """Both drawings are the same, so that their files name the same elements."""
    charts = [Chart(name, "caption", figure()) for name in ("first", "second")]
    assert charts[0].svg == charts[1].svg

    page = Elements(page_html(page_of(*charts)))

    in_drawings = [
        str(attributes["id"])
        for tag, attributes in page.elements
        if tag in ("g", "path", "clippath") and "id" in attributes
    ]
    assert len(in_drawings) > 20
    assert len(set(in_drawings)) == len(in_drawings)
    links = [str(attributes["xlink:href"]).removeprefix("#") for attributes in page.named("use")]
    assert links
    assert set(links) <= set(in_drawings)
    # That of the page alone.
    assert len(page.named("style")) == 1
    assert page.named("metadata") == []


def test_a_figure_is_rendered_once() -> None:
    chart = Chart("first", "caption", figure())

    assert chart.svg is chart.svg


def test_folded_sections_are_closed_until_a_reader_opens_them() -> None:
    sections = (Section("open", "Open", (Paragraph("a"),)), Section("closed", "Closed", (Paragraph("b"),), folded=True))

    page = Elements(page_html(Page("title", "subtitle", sections)))

    assert len(page.named("details")) == 1
    assert "open" not in page.named("details")[0]
    (heading,) = [
        str(attributes["id"]) for tag, attributes in page.elements if tag == "h2" and attributes["id"] == "closed-title"
    ]
    order = [
        tag for tag, attributes in page.elements if tag == "details" or attributes.get("id") in ("open-title", heading)
    ]
    assert order == ["h2", "details", "h2"]


# --- what cannot be made -------------------------------------------------------------------------------------------


def test_what_cannot_be_made_is_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> str:
        raise DataError("a.csv: expected numbers, found words; correct it")

    assert attempted("the figure", fail) is None

    out, err = capsys.readouterr()
    assert out == ""
    assert (
        err == "precice-lb: warning: the figure could not be made: a.csv: expected numbers, found words; correct it\n"
    )


def test_a_defect_is_a_warning_that_asks_to_report_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert attempted("the figure", lambda: 1 // 0) is None

    assert capsys.readouterr().err == (
        "precice-lb: warning: the figure could not be made: ZeroDivisionError: integer division or modulo by zero; "
        "please report this defect, PRECICE_LB_DEBUG=1 shows where it is\n"
    )


def test_a_defect_is_raised_where_defects_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECICE_LB_DEBUG", "1")

    with pytest.raises(ZeroDivisionError):
        attempted("the figure", lambda: 1 // 0)


@pytest.mark.parametrize("error", [BrokenPipeError(), Missing("no runs")])
def test_a_reader_who_is_gone_and_data_that_are_not_there_are_no_failures(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        attempted("the figure", fail)


def test_what_can_be_made_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    assert attempted("the figure", lambda: "drawn") == "drawn"
    assert capsys.readouterr().err == ""


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_report_is_its_page_and_figures_where_they_are_asked_for(tmp_path: Path) -> None:
    page = page_of(Chart("first", "caption", figure()))

    assert write_report(page, tmp_path / "alone") == [tmp_path / "alone" / "report.html"]
    assert write_report(page, tmp_path / "out", tmp_path / "drawn") == [
        tmp_path / "out" / "report.html", tmp_path / "drawn" / "first.svg",
    ]  # fmt: skip
    assert ElementTree.parse(tmp_path / "drawn" / "first.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_file_is_replaced_only_once_its_new_content_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is written in parts; the second part fails as it would on a full disk."""
    (tmp_path / "a.txt").write_text("old")
    write_bytes = Path.write_bytes

    def write_half(path: Path, content: bytes) -> int:
        write_bytes(path, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(DataError, match="expected a directory to write the result to, found: No space left on device"):
        write_files(tmp_path, {"a.txt": b"new content"}, "the result")

    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_files_are_written_into_new_directories(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"

    written = write_files(directory, {"one.txt": b"1", "two.txt": b"2"}, "the result")

    assert written == [directory / "one.txt", directory / "two.txt"]
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {"one.txt": b"1", "two.txt": b"2"}


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    write_files(tmp_path, {"pipe": b"content"}, "the result")

    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
