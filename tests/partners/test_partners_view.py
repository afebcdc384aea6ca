"""Partner ranks as tables and sentences: every cell and every note, from planted links."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from partners_helpers import LINK, pairs, planted

from precice_lb.partners import CostModel, Forecast, LinkPartners, PartnersReport
from precice_lb.partners.view import bytes_text, partners_blocks, partners_notes
from precice_lb.report.blocks import DefinitionList, Paragraph, Table

TWO_LEVELS = {"link": dataclasses.replace(LINK, two_level=True)}
TITLE = "Fluid-Mesh: Fluid to Solid"


def report(*links: LinkPartners, **changes: Any) -> PartnersReport:
    values: dict[str, Any] = {
        "ranks": {"Fluid": 3, "Solid": 2},
        "links": links,
        "meshes": {},
        "advice": (),
        "forecast": None,
        "model": CostModel(),
    }
    return PartnersReport(**{**values, **changes})


def table(title: str, analysis: LinkPartners) -> Table:
    """Return the table whose title begins so."""
    (found,) = (
        block for block in partners_blocks(report(analysis)) if isinstance(block, Table) and title in block.title
    )
    return found


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999.6, "1000 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1024, "1.02e+03 KiB"),
        (1024**2, "1 MiB"),
        (2.5 * 1024**2, "2.5 MiB"),
        (1024**3, "1 GiB"),
        (12.34 * 1024**3, "12.3 GiB"),
        (2048 * 1024**3, "2.05e+03 GiB"),
        (math.nan, "–"),
    ],
)
def test_bytes_are_written_in_the_largest_binary_unit_that_fits(size: float, text: str) -> None:
    assert bytes_text(size) == text


NO_COORDINATES = {"level_2": None, "vertices": None, "one_level": None}


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        # Three of three pairs of one level; 405 vertices of three components of eight bytes are 9.49 KiB.
        ({}, ("one", "3", "2", "33.3 %", "5", "3", "9.49 KiB")),
        (TWO_LEVELS, ("two", "5", "2", "60.0 %", "3", "5", "9.49 KiB")),
        (NO_COORDINATES, ("one", "–", "–", "–", "5", "5", "–")),
        ({**NO_COORDINATES, **TWO_LEVELS}, ("two", "5", "–", "–", "–", "5", "–")),
        ({"one_level": None}, ("one", "–", "2", "–", "5", "5", "9.49 KiB")),
        ({"messages": 4.0}, ("one", "3", "2", "33.3 %", "5", "12", "9.49 KiB")),
        (
            {"level_1": pairs(), "level_2": pairs(), "one_level": pairs(), "vertices": pairs()[:, 0]},
            ("one", "0", "0", "0.0 %", "0", "0", "0 B"),
        ),
    ],
    ids=["one level", "two", "boxes alone", "two with boxes alone", "too large", "iterations", "no pairs"],
)
def test_pairs_are_counted_as_configured_and_in_the_other_scheme(changes: dict[str, Any], cells: tuple[str]) -> None:
    found = table("Pairs of ranks", planted(**changes))

    assert found.title == "Pairs of ranks that are connected, as configured, and what they exchange per time window"
    assert found.header == (
        *("mesh", "ranks", "levels", "pairs", "with data", "empty", "in the other", "messages", "data"),
    )
    assert found.rows == ((TITLE, "3 × 2", *cells),)
    assert [head for head, numeric in zip(found.header, found.numeric, strict=True) if not numeric] == [
        "mesh",
        "levels",
    ]


@pytest.mark.parametrize(
    ("changes", "fluid", "solid"),
    [
        ({}, ("1.0", "1", "0", "0.7"), ("1.5", "2", "0", "1.0")),
        ({"one_level": pairs((0, 0), (1, 0))}, ("0.7", "1", "1", "0.7"), ("1.0", "2", "1", "1.0")),
        (TWO_LEVELS, ("1.7", "2", "0", "0.7"), ("2.5", "3", "0", "1.0")),
        (NO_COORDINATES, ("–", "–", "–", "–"), ("–", "–", "–", "–")),
        ({**NO_COORDINATES, **TWO_LEVELS}, ("1.7", "2", "0", "–"), ("2.5", "3", "0", "–")),
    ],
    ids=["one level", "ranks without", "two levels", "boxes alone", "two levels with boxes alone"],
)
def test_partners_per_rank_are_those_as_configured(
    changes: dict[str, Any], fluid: tuple[str, ...], solid: tuple[str, ...]
) -> None:
    found = table("Partners per rank", planted(**changes))

    assert found.title == "Partners per rank, as configured"
    assert found.header == ("mesh", "ranks of", "mean", "maximum", "without", "mean with data")
    assert found.rows == ((TITLE, "Fluid", *fluid), (TITLE, "Solid", *solid))
    assert found.text == (0, 1)


ONE_ROW, TWO_ROW = ("4 KiB", "2 KiB", "2.5 s"), ("1000 B", "500 B", "0.5 s")


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({}, (("one level (configured)", *ONE_ROW), ("two levels", *TWO_ROW))),
        (TWO_LEVELS, (("two levels (configured)", *TWO_ROW), ("one level", *ONE_ROW))),
    ],
)
def test_initialisation_is_told_for_what_is_configured_and_then_for_the_other(
    changes: dict[str, Any], rows: tuple[tuple[str, ...], ...]
) -> None:
    found = table("Initialisation", planted(**changes))

    assert found.title == "Initialisation, by the stated cost model"
    assert found.header == ("mesh", "initialisation", "memory, primary", "memory, each rank", "start-up")
    assert found.rows == tuple((TITLE, *row) for row in rows)
    assert found.text == (0, 1)


def test_a_note_says_how_a_forecast_was_made_and_how_far_it_misses() -> None:
    forecast = Forecast({"Fluid-Mesh": "bisection", "Solid-Mesh": "ranks.txt"}, 0.25, 0.5)

    ((head, text), _) = partners_notes(report(planted(), forecast=forecast))

    assert head == "forecast"
    assert text == (
        "Fluid-Mesh by bisection, Solid-Mesh by ranks.txt; for the measured ranks the same forecast misses the mean by "
        "25.0 % and the maximum by 50.0 %"
    )


def test_a_note_says_which_projections_were_approximated() -> None:
    approximated = ("nearest-projection", "linear-cell-interpolation")

    ((head, text), _) = partners_notes(report(planted(), planted(approximated=approximated)))

    assert head == TITLE
    assert text == (
        "no connectivity is known, so that nearest vertices stand for nearest-projection, linear-cell-interpolation"
    )


def test_a_note_states_the_constants_of_the_cost_model() -> None:
    ((head, text),) = partners_notes(report(planted(), model=CostModel(latency=2e-6, file=0.5)))

    assert head == "cost model"
    assert text == (
        "latency 2e-06, file 0.5, vertex 2.9e-06, copy 5e-08, vertex_bytes 72, box_bytes 160 (seconds, bytes), a core "
        "for every rank: stated, not measured, so that only the order of start-up seconds counts; --constants file=… "
        "states others"
    )


def test_what_is_missing_stands_first_and_advice_last() -> None:
    texts = {"missing": ("level 2 needs coordinates", "more"), "advice": ("Fluid-Mesh: do this", "do that")}

    first, second, *tables, notes, third, fourth = partners_blocks(report(planted(), **texts))

    assert [first, second] == [Paragraph("Level 2 needs coordinates.", "missing"), Paragraph("More.", "missing")]
    assert [type(block) for block in tables] == [Table] * 3
    assert isinstance(notes, DefinitionList)
    assert [key for key, _ in notes.pairs] == ["cost model"]
    assert [third, fourth] == [
        Paragraph("Fluid-Mesh: do this", "warning", "advice"),
        Paragraph("do that", "warning", "advice"),
    ]


def test_every_link_has_its_rows() -> None:
    other = planted(link=dataclasses.replace(LINK, mesh="Other"))

    blocks = partners_blocks(report(planted(), other))

    titles = [[row[0] for row in block.rows] for block in blocks if isinstance(block, Table)]
    second = "Other: Fluid to Solid"
    assert titles == [[TITLE, second], [TITLE, TITLE, second, second], [TITLE, TITLE, second, second]]
