"""The same time windows of a study with each first guess: one campaign of a single run per predictor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from precice_lb.calibrate.campaign import Event, run_campaign
from precice_lb.calibrate.design import space_filling_splits
from precice_lb.calibrate.guess_compare import AUTO, HOLD, NONE, GuessComparison, GuessRun
from precice_lb.calibrate.state import CampaignState
from precice_lb.calibrate.study import Study
from precice_lb.calibrate.versions import chosen, combinations_of
from precice_lb.dataset import load_runs
from precice_lb.exceptions import StudyError, TooFewRunsError
from precice_lb.guess.patch import patch_guess
from precice_lb.guess.routes import routes
from precice_lb.ingest.profiling.tables import IterationsTail, find_table
from precice_lb.precice_xml import read_configuration
from precice_lb.precice_xml.records import CouplingScheme

__all__ = ["PREDICTORS", "first_split", "try_guesses"]

PREDICTORS = (HOLD, "linear", "quadratic", "periodic", "reduced", AUTO)
"""What is tried unless told otherwise."""

_VARIABLE = "PRECICE_LB_GUESS"


class _Variant(Study):
    """A study of one run, perhaps with another configuration in place of the case's."""

    patched: Annotated[Path | None, Field(exclude=True)] = None

    @property
    def configuration_path(self) -> Path:
        """Absolute path of what becomes the configuration of the run's copy of the case."""
        return self.patched or super().configuration_path


def first_split(study: Study) -> dict[str, int]:
    """Return the first split that a study measures, of its first versions."""
    study = _of_first_versions(study)
    if study.splits:
        return study.splits[0]
    return space_filling_splits(study.bounds, study.budget.ranks, 1, study.allow)[0]


def _of_first_versions(study: Study) -> Study:
    """Return a study with one version of each participant: the first where none was chosen."""
    return chosen(study, combinations_of(study)[0])


def try_guesses(
    study: Study,
    split: Mapping[str, int],
    directory: Path,
    report: Callable[[Event], None],
    predictors: Sequence[str] = PREDICTORS,
) -> GuessComparison:
    """Run a study's windows without a guess, then with each predictor; runs that are there are not repeated.

    Parameters
    ----------
    study
        Says the case, its developed state, how many windows, and where they run; where no versions of its participants
        are chosen, the first of each run.
    split
        Ranks of each participant.
    directory
        Gets the patched configuration, and a campaign for each run.
    report
        Called with each event of the campaigns.
    predictors
        Values of ``PRECICE_LB_GUESS`` to try.

    Returns
    -------
    GuessComparison

    Raises
    ------
    StudyError
        The split is none of this study's, or a guess is already made.
    ConfigurationError
        There is nothing to predict, or something stands in the way.
    CalibrationError
        As of `run_campaign`, but for runs that fail.
    KeyboardInterrupt
        As of `run_campaign`: the next call goes on.
    """
    study = _of_first_versions(study)
    study.require_split(split)
    for place, variables in (("the study's [environment]", study.environment), ("the environment", os.environ)):
        if _VARIABLE in variables:
            raise StudyError(
                f"{_VARIABLE}: expected none in {place}, since the first run is one without a guess, found "
                f"{variables[_VARIABLE]!r}; take it out"
            )
    directory = directory.expanduser().resolve()
    directory.mkdir(parents=True, exist_ok=True)
    patched = directory / study.configuration_path.name
    patch_guess(study.configuration_path, patched)
    scheme = next(route.scheme for route in routes(read_configuration(study.configuration_path)) if route.shifted)
    runs = [_run(_variant(study, split), scheme, NONE, directory / NONE, report)]
    for name in predictors:
        runs.append(_run(_variant(study, split, patched, name), scheme, name, directory / name, report))
    return GuessComparison(runs, study.runs.warmup_windows, patched)


def _variant(study: Study, split: Mapping[str, int], patched: Path | None = None, predictor: str = "") -> _Variant:
    """Return the study of one run, which may fail without ending the others."""
    only = {"splits": (dict(split),), "existing": (), "on_failure": "skip"}
    changes = {
        "runs": study.runs.model_copy(update=only),
        "participants": tuple(
            each.model_copy(update={"minimum_ranks": split[each.name], "maximum_ranks": split[each.name]})
            for each in study.participants
        ),
        "environment": study.environment | ({_VARIABLE: predictor} if predictor else {}),
        "patched": patched,
    }
    return _Variant.model_construct(**(dict(study) | changes))


def _run(
    study: _Variant, scheme: CouplingScheme, predictor: str, directory: Path, report: Callable[[Event], None]
) -> GuessRun:
    """Make a run, or find that it was made, and read it."""
    try:
        result = run_campaign(study, directory, report=report)
    except TooFewRunsError:
        state = CampaignState.load(directory)
        record = state.runs[-1] if state is not None else None
        why = "" if record is None else ": ".join(filter(None, [record.error, " | ".join(record.why)]))
        return GuessRun(predictor, directory, why or "the run failed")
    record = result.finished[-1]
    (run,) = load_runs([result.stores[-1]], warmup=study.runs.warmup_windows)
    part = run.participants[scheme.judge]
    if not (part.windows > study.runs.warmup_windows).any():
        return GuessRun(predictor, directory, f"no window is left after a warm-up of {study.runs.warmup_windows}")
    case = directory / record.directory / "case"
    return GuessRun(
        predictor,
        directory,
        windows=part.windows,
        iterations=part.iterations,
        seconds=part.window_seconds,
        not_converged=_not_converged(scheme, Path(part.metadata.get("working_directory", case)), case),
        other_load=record.other_load,
    )


def _not_converged(scheme: CouplingScheme, directory: Path, case: Path) -> int | None:
    """Count the windows that ended without convergence; None where there are no limits or no log tells."""
    log = find_table(f"precice-{scheme.judge}-iterations.log", directory, [case])
    if log is None or not scheme.measures:
        return None
    columns = [each["Convergence"] for each in IterationsTail(log) if "Convergence" in each]
    return sum(int((each == 0).sum()) for each in columns) if columns else None
