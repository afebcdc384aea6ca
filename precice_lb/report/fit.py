"""What learners make of measurements: fitted, judged on what they had not seen, as tables and as JSON."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.dataset import Measurements
from precice_lb.exceptions import DataError, ModelError, PreciceLBError
from precice_lb.models.evaluate import Evaluation, cross_validate, evaluate, fit_quietly, meeting
from precice_lb.plural import plural
from precice_lb.recommend.case import is_numeric
from precice_lb.recommend.result import printed
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.documents import json_text, write_files
from precice_lb.report.text import file_stem, listed, percent, short_names, visible

__all__ = ["LearnerFit", "ParticipantFit", "compare_learners", "fit_blocks", "fit_dict", "write_fits"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LearnerFit:
    """One learner on one participant's measurements."""

    learner: str
    # Fitted to all measurements, those of the test left out; None if it refused them.
    model: Any
    # Cross-validation on the same measurements, None if refused.
    validation: Evaluation | None
    # On the measurements of the test; None without one.
    test: Evaluation | None
    # Why it refused, or nothing.
    problem: str = ""


@dataclass(frozen=True, eq=False)
class ParticipantFit:
    """All learners on one participant's measurements."""

    participant: str
    # ``ranks``, then the parameters that vary.
    columns: tuple[str, ...]
    # The measurements, shape (n, d).
    rows: Array
    seconds: Array
    spread: Array
    # Those that were kept for the test, shape (n,).
    tested: NDArray[np.bool_]
    # The best first: by the error in the test if there is one, else in the cross-validation.
    fits: tuple[LearnerFit, ...]
    # Columns that vary and are not numbers.
    left_aside: tuple[str, ...]


def compare_learners(
    measurements: Measurements,
    learners: Sequence[str],
    *,
    conditions: Sequence[str] = (),
    folds: int | None = None,
    level: float = 0.8,
    report: Callable[[str], None] | None = None,
) -> list[ParticipantFit]:
    """Fit learners to every participant's measurements and judge each by what it had not seen."""
    if not 0 < level < 1:
        raise DataError(f"expected the level of intervals between 0 and 1, found {level!r}")
    if folds is not None and folds < 2:
        raise DataError(f"expected at least 2 folds, found {folds}")
    tell = report or (lambda _: None)
    fits = [_compare(measurements, name, learners, conditions, folds, level, tell) for name in measurements.samples]
    if conditions and not any(each.tested.any() for each in fits):
        raise DataError(f"--test {' '.join(conditions)}: expected measurements that meet it, found none")
    return fits


def _compare(
    measurements: Measurements,
    name: str,
    learners: Sequence[str],
    conditions: Sequence[str],
    folds: int | None,
    level: float,
    tell: Callable[[str], None],
) -> ParticipantFit:
    samples = np.asarray(measurements.samples[name], dtype=np.float64)
    parameters = measurements.parameters.get(name, {})
    varying = [key for key, values in parameters.items() if len(np.unique(values)) > 1]
    numeric = [key for key in varying if is_numeric(parameters[key])]
    rows = np.column_stack([samples[:, 0], *(np.asarray(parameters[key], dtype=np.float64) for key in numeric)])
    tested = np.zeros(len(rows), dtype=np.bool_)
    if conditions:
        try:
            tested = meeting(conditions, {"ranks": samples[:, 0], **parameters})
        except ModelError as error:
            raise DataError(f"--test: {error}") from error
        if tested.all():
            raise DataError(
                f"--test {' '.join(conditions)}: expected measurements of {name} that do not meet it, to learn from, "
                f"found that all {len(tested)} do"
            )
    left_aside = tuple(key for key in varying if key not in numeric)
    found = ParticipantFit(
        name, ("ranks", *numeric), rows, samples[:, 1], measurements.errors(name), tested, (), left_aside
    )
    fits = []
    for number, learner in enumerate(learners, 1):
        tell(f"{visible(name)}: {learner} ({number} of {len(learners)})")
        fits.append(_fit(learner, found, folds, level))
    return replace(found, fits=tuple(sorted(fits, key=_error)))


def _fit(learner: str, found: ParticipantFit, folds: int | None, level: float) -> LearnerFit:
    rows, seconds, spread = (each[~found.tested] for each in (found.rows, found.seconds, found.spread))
    model, validation, test, problem = None, None, None, ""
    try:
        model = fit_quietly(learner, rows, seconds, spread)
        if found.tested.any():
            test = evaluate(learner, found.rows, found.seconds, found.tested, found.spread, level=level)
        validation = cross_validate(learner, rows, seconds, spread, folds=folds, level=level)
    except PreciceLBError as error:
        problem = str(error)
    return LearnerFit(learner, model, validation, test, problem)


def _error(fit: LearnerFit) -> tuple[float, float]:
    scores = [math.inf if each is None else each.smape for each in (fit.test, fit.validation)]
    return (scores[0], scores[1]) if math.isfinite(scores[0]) else (scores[1], scores[1])


def fit_table(fit: ParticipantFit, name: str, level: float) -> Table:
    """Set the errors of a participant's learners side by side.

    With a test, its errors come first, MSE and intervals are of it, and SMAPE is of the cross-validation.
    """
    kept, tested = int((~fit.tested).sum()), int(fit.tested.sum())
    how = f" to learn from, {tested} to test by" if tested else ", each predicted from the others"
    title = f"{name}: {plural(kept, 'measurement')} over {', '.join(fit.columns)}{how}"
    header = ["learner", *(["SMAPE test"] if tested else []), "SMAPE", "MSE (s²)", f"in {percent(level, 0)}", "not > 0"]
    rows = []
    for each in fit.fits:
        judged = each.test if tested else each.validation
        errors = [each.test, each.validation] if tested else [each.validation]
        row = [each.learner, *("–" if error is None else f"{error.smape:.1f} %" for error in errors)]
        if judged is None:
            row += ["–"] * 3
        else:
            row += [f"{judged.mse:.3g}", percent(judged.coverage), str(judged.not_positive)]
        rows.append(tuple(row))
    return Table(title, tuple(header), tuple(rows))


def fit_blocks(fits: Sequence[ParticipantFit], level: float) -> list[Block]:
    """Say of each participant what its learners' errors and formulas are, and what was left aside."""
    names = short_names([each.participant for each in fits], 24)
    blocks: list[Block] = []
    for each in fits:
        blocks += [fit_table(each, names[each.participant], level), DefinitionList(tuple(formulas(each)))]
        if len(each.columns) > 1:
            blocks.append(Paragraph(", ".join(f"{letter}: {name}" for letter, name in variables(each).items())))
        if each.left_aside:
            text = f"not modelled, because it is not numbers throughout: {listed(each.left_aside)}"
            blocks.append(Paragraph(text, "warning"))
    return blocks


def formulas(fit: ParticipantFit) -> Iterator[tuple[str, str]]:
    """Give each learner's formula, or why there is none."""
    for each in fit.fits:
        if each.problem:
            yield each.learner, each.problem
        if each.model is not None:
            yield each.learner, _formula_text(each.model, fit)


def variables(fit: ParticipantFit) -> dict[str, str]:
    """Say what the letters of formulas stand for: ``p`` for the ranks, ``x1`` for the first parameter."""
    return {f"x{place}" if place else "p": column for place, column in enumerate(fit.columns)}


def _formula_text(model: Any, fit: ParticipantFit) -> str:
    try:
        formula, values = _formula(model, fit)
    except (NotImplementedError, ModelError) as error:
        return f"no formula: {error}" if str(error) else "no formula"
    case = ", ".join(f"{column} = {value:g}" for column, value in values.items())
    return f"{formula.text()}{f' for {case}' if case else ''}"


def _formula(model: Any, fit: ParticipantFit) -> tuple[Any, dict[str, float]]:
    """Get a formula, and the parameters that it is for where it is one of ranks alone: the largest learned from."""
    if len(fit.columns) > 1 and "parameters" in inspect.signature(model.formula).parameters:
        largest = fit.rows[~fit.tested, 1:].max(axis=0).tolist()
        return model.formula(parameters=largest), dict(zip(fit.columns[1:], largest, strict=True))
    return model.formula(), {}


def fit_dict(fits: Sequence[ParticipantFit], conditions: Sequence[str]) -> dict[str, Any]:
    """Give everything but the curves as plain types, for JSON; errors that are not known are None."""
    return {
        "format": "precice-lb-fit",
        "format_version": 1,
        "test": list(conditions),
        "participants": {
            each.participant: {
                "columns": list(each.columns),
                "variables": variables(each),
                "left_aside": list(each.left_aside),
                "measurements": int((~each.tested).sum()),
                "tested": int(each.tested.sum()),
                "learners": {fit.learner: _learner_dict(fit, each) for fit in each.fits},
            }
            for each in fits
        },
    }


def _learner_dict(fit: LearnerFit, participant: ParticipantFit) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "cross_validation": _evaluation_dict(fit.validation),
        "test": _evaluation_dict(fit.test),
        "problem": visible(fit.problem) or None,
    }
    if fit.model is not None:
        try:
            formula, values = _formula(fit.model, participant)
            entry["formula"] = {**printed(formula), "parameters": values}
        except (NotImplementedError, ModelError):
            entry["formula"] = None
    return entry


def _evaluation_dict(judged: Evaluation | None) -> Mapping[str, Any] | None:
    if judged is None:
        return None
    return {
        "smape_percent": judged.smape,
        "mse_seconds2": judged.mse,
        "coverage": judged.coverage,
        "level": judged.level,
        "not_positive": judged.not_positive,
    }


def write_fits(
    fits: Sequence[ParticipantFit], directory: str | Path, conditions: Sequence[str] = (), level: float = 0.8
) -> list[Path]:
    """Write fit.json, and per participant its models and figure, into a directory."""
    from precice_lb.report.fit_figure import draw_fit
    from precice_lb.report.style import figure_files

    contents = {"fit.json": json_text(fit_dict(fits, conditions)).encode()}
    for fit in fits:
        stem = file_stem(fit.participant)
        for each in fit.fits:
            if each.model is not None:
                # What the columns of X are, in their order, is not the model's to know.
                stored = {**each.model.to_dict(), "participant": fit.participant, "columns": list(fit.columns)}
                contents[f"{stem}-{each.learner}.json"] = json_text(stored).encode()
        if any(each.model is not None for each in fit.fits):
            contents |= figure_files(stem, draw_fit(fit, level))
    return write_files(directory, contents, "models")
