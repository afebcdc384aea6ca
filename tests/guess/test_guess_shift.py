"""The change of variables: where z is shifted by the same at both ends, every window starts from the prediction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.guess.predictors import Delta, Position, Sent


class _Samples:
    """Values of a time window as preCICE keeps them: between samples linear, or at degree 0 that of the next one."""

    def __init__(self, start: np.ndarray, degree: int) -> None:
        self._times, self._values, self._degree = [0.0], [start], degree

    def add(self, part: float, value: np.ndarray) -> None:
        self._times.append(part)
        self._values.append(value)

    def at(self, part: float) -> np.ndarray:
        if self._degree == 0:
            return self._values[int(np.searchsorted(self._times, part - 1e-12))]
        return np.array([np.interp(part, self._times, each) for each in zip(*self._values, strict=True)])


@pytest.mark.parametrize("degree", [0, 1])
@given(seed=st.integers(0, 10**6))
def test_the_reader_gets_what_was_written_and_first_the_prediction(degree: int, seed: int) -> None:
    """Windows of iterations with substeps, at both ends; in the first iteration the reader sees the constant z."""
    generator = np.random.default_rng(seed)
    sent, received = Sent((3,), degree, relaxed=False, relative=False), Delta((3,), degree)
    converged = np.zeros(3)
    for window in range(1, 6):
        parts = [*np.sort(generator.uniform(0.05, 0.95, generator.integers(0, 4))).tolist(), 1.0]
        last_z, start, prediction = sent.shifted, converged, sent.predicted
        for part in (0.0, 1e-6, 0.3, 1.0):
            first = last_z + received.at(part)
            if window > 1:
                expected = start if part == 0.0 else prediction
                if degree == 1:
                    expected = start + part * (prediction - start)
                np.testing.assert_allclose(first, expected, atol=1e-12)
        for _ in range(generator.integers(1, 4)):
            samples, truth = _Samples(last_z, degree), _Samples(start, degree)
            for part in parts:
                sent.write(range(3), converged := generator.normal(size=3))
                sent.shift(part)
                samples.add(part, sent.shifted)
                truth.add(part, converged)
                if part == 1.0:
                    sent.predicted = generator.normal(size=3)
                    last = sent.values
                sent.clear()
            for part in (0.0, *parts, *generator.uniform(0.0, 1.0, 4)):
                np.testing.assert_allclose(samples.at(part) + received.at(part), truth.at(part), atol=1e-12)
        sent.values = last
        sent.converged()
        received.start_window(sent.predicted, sent.shifted)
        sent.clear()


# --- where in the window -------------------------------------------------------------------------------------------


@given(length=st.floats(1e-9, 1e6), count=st.integers(1, 300), windows=st.integers(1, 5))
def test_steps_that_sum_to_the_window_end_it(length: float, count: int, windows: int) -> None:
    position, step = Position(1.0), length / count
    for _ in range(windows):
        position.start_window(length)
        for number in range(1, count):
            part = position.after(step)
            assert part == pytest.approx(number / count, abs=1e-9)
            assert part < 1.0
            position.move(step)
        assert position.after(0.0) < 1.0
        assert position.after(step) == 1.0


# --- what is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "astray"), [(1.0, False), (2.9, False), (3.1, True), (0.34, False), (0.32, True)])
@pytest.mark.parametrize("relative", [True, False])
def test_shifted_values_may_not_stray_where_their_norm_counts(norm: float, astray: bool, relative: bool) -> None:
    sent = Sent((4,), 1, relaxed=relative, relative=relative)
    for _ in range(5):
        sent.write(range(4), [1.0, -1.0, 1.0, -1.0])
        sent.shifted = norm * sent.values
        sent.predicted = sent.values
        sent.converged()
        assert sent.astray == (astray and relative)
        sent.clear()


@pytest.mark.parametrize("relaxed", [True, False])
def test_relaxed_values_do_not_repeat_a_residual_to_the_last_digit(relaxed: bool) -> None:
    """Without a shift, within a window and in the first iteration nothing is moved; else by a few roundings."""
    sent = Sent((1,), 1, relaxed=relaxed, relative=False)
    values, predicted = np.array([0.2]), np.array([32.2])
    moved = []
    for delta in (0.0, 32.0):
        for part in (0.5, 1.0, 0.5, 1.0, 0.5, 1.0):
            sent.write([0], values)
            sent.shift(part)
            moved.append(sent.shifted[0] != (values - sent.delta.at(part))[0])
            np.testing.assert_allclose(sent.shifted, values - sent.delta.at(part), rtol=0.0, atol=64 * np.spacing(32.0))
        sent.predicted = predicted
        sent.shifted = predicted - 32.0
        sent.converged()
        assert sent.delta.at(1.0)[0] == pytest.approx(32.0), delta
    assert moved == [False] * 9 + [relaxed, False, False]
