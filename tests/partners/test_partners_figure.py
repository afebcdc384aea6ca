"""The picture of a received mesh: which cell stands for which pair of ranks, and what its colour says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from partners_helpers import LINK, pairs, planted

from precice_lb.partners import LinkPartners
from precice_lb.partners.view import link_chart


def drawn(analysis: LinkPartners) -> tuple[Axes, list[str]]:
    """Return the axes of the matrix, and the texts of the legend."""
    figure = link_chart(analysis, "pairs").figure
    (legend,) = figure.legends
    return figure.axes[0], [text.get_text() for text in legend.get_texts()]


def test_connected_pairs_are_grey_cells_at_their_ranks() -> None:
    axes, legend = drawn(planted())

    connected, _ = axes.get_images()
    # A row for each rank of Solid, from above, and a column for each one of Fluid; 1 is white.
    assert np.asarray(connected.get_array()).tolist() == [[0.82, 0.82, 1.0], [1.0, 1.0, 0.82]]
    # The cell of a rank has its number in the middle.
    assert connected.get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert connected.origin == "upper"
    assert connected.get_interpolation() == "nearest"
    assert axes.get_xlabel() == "rank of Fluid, the provider"
    assert axes.get_ylabel() == "rank of Solid, the receiver"
    assert legend == ["connected in one level", "exchanges data (level 2)"]


def test_pairs_with_data_are_coloured_by_their_vertices() -> None:
    axes, _ = drawn(planted())

    _, exchanged = axes.get_images()
    assert exchanged.get_array().tolist() == [[5, None, None], [None, None, 400]]
    assert exchanged.get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert exchanged.get_interpolation() == "nearest"
    assert isinstance(exchanged.norm, LogNorm)
    assert (exchanged.norm.vmin, exchanged.norm.vmax) == (5, 400)
    assert exchanged.colorbar.ax.get_ylabel() == "vertices exchanged (count)"


def test_pairs_of_two_levels_are_those_of_level_1() -> None:
    link = dataclasses.replace(LINK, two_level=True)

    axes, legend = drawn(planted(link=link))

    connected, _ = axes.get_images()
    assert np.asarray(connected.get_array()).tolist() == [[0.82, 0.82, 1.0], [0.82, 0.82, 0.82]]
    assert legend[0] == "connected in two levels"


@pytest.mark.parametrize(
    "changes", [{"level_2": None, "vertices": None}, {"level_2": pairs(), "vertices": np.array([])}]
)
def test_without_data_only_connections_are_drawn(changes: dict[str, Any]) -> None:
    axes, legend = drawn(planted(**changes))

    assert len(axes.get_images()) == 1
    assert legend == ["connected in one level"]


def test_a_cell_of_many_ranks_stands_for_all_of_them() -> None:
    """Of 800 ranks of Fluid two share a cell: 798 and 799 have 10 and 20 vertices for the only rank of Solid."""
    analysis = planted(
        provider_boxes=np.zeros((800, 3, 2)),
        receiver_boxes=np.zeros((1, 3, 2)),
        one_level=pairs((0, 0), (798, 0), (799, 0)),
        level_2=pairs((798, 0), (799, 0)),
        vertices=np.array([10, 20]),
    )

    axes, _ = drawn(analysis)

    connected, exchanged = axes.get_images()
    assert np.asarray(connected.get_array()).shape == (1, 400)
    assert np.flatnonzero(np.asarray(connected.get_array())[0] < 1).tolist() == [0, 399]
    assert exchanged.get_array()[0, 399] == 30
    assert exchanged.get_array().count() == 1
    assert connected.get_extent() == [-0.5, 799.5, 0.5, -0.5]
