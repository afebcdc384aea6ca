"""Figures of a report: where bars, lines, points and bands are, and in which unit, for planted numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from chart_helpers import (
    BLUE,
    GREEN,
    ORANGE,
    IdealModel,
    axes_of,
    band_at,
    ideal_curves,
    legend_of,
    lines_of,
    numbers,
    planted_recommendation,
)
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from precice_lb.dataset import Measurements, Samples
from precice_lb.recommend import Alternative
from precice_lb.recommend.posterior import NEVER, ExpectedWindowTime
from precice_lb.report.charts import comparison_chart, landscape_chart, scaling_chart
from precice_lb.schedule import Schedule

# --- one window under each split -----------------------------------------------------------------------------------


def bars_of(axes: Axes) -> list[tuple[float, float, float, str]]:
    """Return of each bar where it begins, its width, the place of its middle from above, and its colour or hatch."""
    bars: list[tuple[float, float, float, str]] = []
    for patch in axes.patches:
        middle = patch.get_y() + patch.get_height() / 2
        look = patch.get_hatch() or to_hex(patch.get_facecolor())
        bars.append((*numbers([patch.get_x(), patch.get_width(), middle]), look))
    return bars


def test_waiting_is_drawn_behind_compute_time_for_each_participant_and_split() -> None:
    axes = axes_of(comparison_chart(planted_recommendation()).figure)

    assert bars_of(axes) == [
        # Milliseconds of the recommended split: its window takes 11, of which Inner computes 9 and Outer 7.
        (0, 9, 1.55, BLUE),
        (9, 2, 1.55, "////"),
        (0, 7, 2.55, ORANGE),
        (7, 4, 2.55, "////"),
        # Of the equal split on eight ranks each it takes 18: Inner computes for 120 / 8, Outer for 40 / 8.
        (0, 15, 4.65, BLUE),
        (15, 3, 4.65, "////"),
        (0, 5, 5.65, ORANGE),
        (5, 13, 5.65, "////"),
    ]
    assert axes.get_xlabel() == "time per window (ms)"


def test_a_black_line_ends_the_window_of_each_split() -> None:
    axes = axes_of(comparison_chart(planted_recommendation()).figure)

    # Over the rows of both participants, below the line with the name of the split.
    assert lines_of(axes, color="#000000") == [([11, 11], [1.1, 3.1]), ([18, 18], [4.2, 6.2])]
    names = [(text.get_text(), *numbers(text.get_position()[1])) for text in axes.texts]
    assert names == [("recommended split: 12 + 4", 1.04), ("equal split: 8 + 8", 4.14)]


def test_the_axis_of_windows_begins_at_nothing_and_has_room_for_the_longest() -> None:
    axes = axes_of(comparison_chart(planted_recommendation()).figure)

    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    assert left == 0
    assert 18 < right < 20
    # The first split is on top.
    assert top == 0
    assert bottom > 6.2


def test_the_legend_of_windows_has_the_looks_of_the_bars() -> None:
    legend = legend_of(comparison_chart(planted_recommendation()).figure)

    assert list(legend) == ["compute time of Inner", "compute time of Outer", "waiting"]
    assert to_hex(legend["compute time of Inner"].get_facecolor()) == BLUE
    assert to_hex(legend["compute time of Outer"].get_facecolor()) == ORANGE
    assert legend["waiting"].get_hatch() == "////"


def test_a_participant_computes_in_all_its_windows_of_a_period() -> None:
    """Inner computes 4 ms in each of its two windows, while Outer has one."""
    expected = SimpleNamespace(schedule=SimpleNamespace(windows={"Inner": 2, "Outer": 1}))
    recommendation = planted_recommendation(
        expected=expected, compute_seconds={"Inner": 0.004, "Outer": 0.007}, alternatives={}
    )

    axes = axes_of(comparison_chart(recommendation).figure)

    assert [bar[:2] for bar in bars_of(axes)] == [(0, 8), (8, 3), (0, 7), (7, 4)]


def test_each_of_three_participants_has_a_row_and_a_colour() -> None:
    seconds = {"A": 0.01, "B": 0.02, "C": 0.03}
    expected = SimpleNamespace(schedule=SimpleNamespace(windows=dict.fromkeys(seconds, 1)))
    recommendation = planted_recommendation(
        split={"A": 1, "B": 2, "C": 3},
        compute_seconds=seconds,
        window_seconds=0.035,
        expected=expected,
        alternatives={},
    )

    figure = comparison_chart(recommendation).figure

    assert bars_of(axes_of(figure)) == [
        (0, 10, 1.55, BLUE), (10, 25, 1.55, "////"),
        (0, 20, 2.55, ORANGE), (20, 15, 2.55, "////"),
        (0, 30, 3.55, GREEN), (30, 5, 3.55, "////"),
    ]  # fmt: skip
    assert lines_of(axes_of(figure), color="#000000") == [([35, 35], [1.1, 4.1])]


def test_a_participant_that_computes_longer_than_the_window_does_not_wait() -> None:
    """Means of seconds and of windows differ a little: what is left may be below nothing."""
    recommendation = planted_recommendation(compute_seconds={"Inner": 0.0112, "Outer": 0.007}, alternatives={})

    first, second, *_ = bars_of(axes_of(comparison_chart(recommendation).figure))

    assert first[:2] == (0, 11.2)
    assert second[:2] == (11.2, 0)


def test_windows_of_seconds_are_drawn_in_seconds() -> None:
    recommendation = planted_recommendation(
        window_seconds=2.2, compute_seconds={"Inner": 1.9, "Outer": 1.5}, alternatives={}
    )

    axes = axes_of(comparison_chart(recommendation).figure)

    assert [bar[:2] for bar in bars_of(axes)] == [(0, 1.9), (1.9, 0.3), (0, 1.5), (1.5, 0.7)]
    assert axes.get_xlabel() == "time per window (s)"


# --- scaling of each participant -----------------------------------------------------------------------------------


def test_measured_times_are_points_with_their_errors() -> None:
    axes = axes_of(scaling_chart(planted_recommendation()).figure)

    # Milliseconds over ranks.
    assert ([2, 4, 8], [61, 29, 16]) in lines_of(axes, color=BLUE, marker="o", linestyle="None")
    assert ([1, 2, 4], [41, 19, 11]) in lines_of(axes, color=ORANGE, marker="s", linestyle="None")
    inner, outer = (container.lines[2][0].get_segments() for container in axes.containers)
    assert [numbers(segment) for segment in inner] == [[2, 58, 2, 64], [4, 27, 4, 31], [8, 15, 8, 17]]
    assert [numbers(segment) for segment in outer] == [[1, 39, 1, 43], [2, 18, 2, 20], [4, 10, 4, 12]]
    assert axes.get_ylabel() == "compute time per window (ms)"
    assert axes.get_xlabel() == "ranks of the participant (count)"


def test_models_are_dashed_beyond_the_measurements() -> None:
    axes = axes_of(scaling_chart(planted_recommendation()).figure)

    for colour, work, measured, shown in ((BLUE, 120, (2, 8), (2, 12)), (ORANGE, 40, (1, 4), (1, 4))):
        for linestyle, (least, most) in (("--", shown), ("-", measured)):
            (line,) = lines_of(axes, color=colour, linestyle=linestyle)
            ranks, milliseconds = map(np.array, line)
            assert (ranks[0], ranks[-1]) == (least, most)
            assert milliseconds == pytest.approx(work / ranks)


def test_intervals_of_models_are_bands_around_them() -> None:
    axes = axes_of(scaling_chart(planted_recommendation()).figure)

    # 80 % and 125 % of 120 / 2 and 120 / 12, and of 40 / 4.
    assert band_at(axes, 2, BLUE) == pytest.approx((48, 75))
    assert band_at(axes, 12, BLUE) == pytest.approx((8, 12.5))
    assert band_at(axes, 4, ORANGE) == pytest.approx((8, 12.5))


def test_recommended_and_present_counts_are_marked_on_the_models() -> None:
    present = Alternative({"Inner": 10, "Outer": 5}, 0.03, 0.2)
    recommendation = planted_recommendation(alternatives={"present": present})

    figure = scaling_chart(recommendation).figure

    assert lines_of(axes_of(figure), marker="*") == [([12, 4], [10, 10])]
    assert lines_of(axes_of(figure), marker="^", color="#f0e442") == [([10, 5], [12, 8])]
    assert list(legend_of(figure)) == ["Inner: 12 ranks", "Outer: 4 ranks", "recommended", "in use at present"]
    # The present count of Outer is beyond what was measured, and the model is drawn up to it.
    (dashed,) = lines_of(axes_of(figure), color=ORANGE, linestyle="--")
    assert (dashed[0][0], dashed[0][-1]) == (1, 5)


def test_points_of_other_parameters_are_pale_and_the_model_is_that_of_this_case() -> None:
    """Inner was measured on a mesh of level 1 with 2 and 4 ranks, and on one of level 2, which is asked for, with 8."""
    inner = Samples(
        ranks=[2, 4, 8],
        seconds=[0.060, 0.030, 0.030],
        standard_error=[0.003, 0.002, 0.001],
        parameters={"level": np.array([1.0, 1.0, 2.0])},
    )
    recommendation = planted_recommendation(
        measurements=Measurements({"Inner": inner}),
        models={"Inner": IdealModel(0.12)},
        modelled={"Inner": {"level": 2.0}},
        split={"Inner": 12},
        alternatives={},
    )

    axes = axes_of(scaling_chart(recommendation).figure)

    alphas = {
        tuple(numbers(line.get_xdata())): line.get_alpha() for line in axes.get_lines() if line.get_marker() == "o"
    }
    assert alphas == {(8,): None, (2, 4): 0.4}
    assert ([2, 4], [60, 30]) in lines_of(axes, marker="o")
    # 120 ms times the level over the ranks.
    assert lines_of(axes, marker="*") == [([12], [20])]
    assert band_at(axes, 12, BLUE) == pytest.approx((16, 25))


def test_both_axes_of_scaling_are_logarithmic_with_plain_numbers() -> None:
    figure = scaling_chart(planted_recommendation()).figure
    axes = axes_of(figure)

    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = {value: axis.get_major_formatter()(value) for value in axis.get_majorticklocs() if low <= value <= high}
        assert len(ticks) >= 2
        assert ticks == {value: f"{value:g}" for value in ticks}


# --- window time over the split ------------------------------------------------------------------------------------


def test_the_window_time_is_drawn_over_all_splits_of_the_ranks() -> None:
    axes = axes_of(landscape_chart(planted_recommendation()).figure)

    (window,) = lines_of(axes, color="#000000")
    ranks = list(range(1, 16))
    assert window[0] == ranks
    # Milliseconds: the slower one of Inner on so many ranks and Outer on the rest of 16.
    assert window[1] == numbers([max(120 / count, 40 / (16 - count)) for count in ranks])
    assert axes.get_ylabel() == "time per window (ms)"
    assert axes.get_xlabel() == "ranks of Inner (count)\nthe rest of 16 to Outer"
    assert axes.get_yscale() == "log"


def test_compute_times_are_drawn_over_the_ranks_of_the_first_participant() -> None:
    axes = axes_of(landscape_chart(planted_recommendation()).figure)

    ranks = list(range(1, 16))
    assert lines_of(axes, color=BLUE) == [(ranks, numbers([120 / count for count in ranks]))]
    assert lines_of(axes, color=ORANGE) == [(ranks, numbers([40 / (16 - count) for count in ranks]))]


def test_the_band_of_the_window_time_holds_the_drawn_curves_with_the_level() -> None:
    """One of two curves is half, and the other one twice as slow as the ideal one, which is their geometric mean."""
    figure = landscape_chart(planted_recommendation(factors=(0.5, 2.0))).figure
    axes = axes_of(figure)

    (window,) = lines_of(axes, color="#000000")
    assert window[1][7] == pytest.approx(15)
    # The tenth and the ninetieth percentile between half and twice 15 ms: 7.5 + 0.1 * 22.5, and 30 - 0.1 * 22.5.
    assert band_at(axes, 8, "#000000") == pytest.approx((9.75, 27.75))
    assert "80 % interval of the window time" in legend_of(figure)


def test_without_drawn_curves_the_window_time_has_no_band() -> None:
    figure = landscape_chart(planted_recommendation()).figure

    assert list(axes_of(figure).collections) == []
    assert list(legend_of(figure)) == [
        "window time", "compute time of Inner", "compute time of Outer", "recommended", "equal split",
    ]  # fmt: skip


def test_splits_are_marked_at_their_expected_window_times() -> None:
    """The present split has fewer ranks, and so no place on the axis."""
    alternatives = {
        "equal": Alternative({"Inner": 8, "Outer": 8}, 0.018, 0.4),
        "degrees-of-freedom": Alternative({"Inner": 11, "Outer": 5}, 0.012, 0.1),
        "present": Alternative({"Inner": 4, "Outer": 4}, 0.031, 0.6),
    }

    figure = landscape_chart(planted_recommendation(alternatives=alternatives)).figure

    axes = axes_of(figure)
    assert lines_of(axes, marker="*") == [([12], [11])]
    assert lines_of(axes, marker="D") == [([8], [18])]
    assert lines_of(axes, marker="s") == [([11], [12])]
    assert lines_of(axes, marker="^") == []
    marks = ("recommended", "equal split", "DoF-proportional split")
    legend = legend_of(figure)
    assert list(legend)[-3:] == list(marks)
    assert {text: legend[text].get_marker() for text in marks} == {
        "recommended": "*",
        "equal split": "D",
        "DoF-proportional split": "s",
    }


def test_the_axes_show_splits_up_to_three_times_the_optimum_and_all_marks() -> None:
    axes = axes_of(landscape_chart(planted_recommendation()).figure)

    # Three times 11 ms are 33 ms: Inner takes longer on 3 ranks, but not on 4, and Outer longer on 1, but not on 2. On
    # each side 2 % of 16 ranks are left.
    assert axes.get_xlim() == pytest.approx((3.68, 14.32))
    assert axes.get_ylim() == pytest.approx((11 / 6, 1.05 * 33))


def test_a_mark_above_three_times_the_optimum_is_within_the_axes() -> None:
    far = {"equal": Alternative({"Inner": 8, "Outer": 8}, 0.05, 0.4)}

    axes = axes_of(landscape_chart(planted_recommendation(alternatives=far)).figure)

    # 15 % above the mark, and 5 % more.
    assert axes.get_ylim()[1] == pytest.approx(1.05 * 57.5)


def test_splits_without_a_window_time_are_not_drawn() -> None:
    """Outer cannot run on more than five ranks."""
    schedule = Schedule.parallel(["Inner", "Outer"])
    outer = ideal_curves(0.04, [1.0])
    curves = {
        "Inner": ideal_curves(0.12, [1.0]),
        "Outer": lambda ranks: np.where(np.asarray(ranks) > 5, NEVER, outer(ranks)),
    }

    axes = axes_of(landscape_chart(planted_recommendation(expected=ExpectedWindowTime(schedule, curves))).figure)

    (window,) = lines_of(axes, color="#000000")
    assert window[0] == [11, 12, 13, 14, 15]
