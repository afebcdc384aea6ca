"""The subcommand that measures what a first guess saves."""

from __future__ import annotations

import sys
from pathlib import Path

from precice_lb.cli.flow import Format, Output, Unit, print_result, recommended_split
from precice_lb.cli.guess import guess_app
from precice_lb.cli.splits import split_values
from precice_lb.exceptions import DataError

__all__ = ["guess_try"]


@guess_app.command(name="try")
def guess_try(
    study: Path,
    *,
    output: Output = None,
    predictors: str = "hold,linear,quadratic,periodic,reduced,auto",
    split: list[str] | None = None,
    windows: int | None = None,
    warmup: int | None = None,
    format: Format = "table",
    unit: Unit = None,
) -> int:
    """Run the same time windows of a study with each first guess, and compare iterations and seconds.

    The first run is without a guess, with the study's own configuration; those that follow have a patched one, and
    PRECICE_LB_GUESS for all participants. They begin in the developed state that the study names (restart). A run that
    fails is a line of the table. Stopped, and started again with the same directory, it goes on; runs that are there
    are not repeated. Exit code 1 says that no run can be compared.

    Example: precice-lb guess try tube.toml --windows 100 --split Fluid=2,Solid=1 -o guesses

    Parameters
    ----------
    study
        The study file (TOML).
    output
        Where the runs live, a campaign for each guess; by default the study's name with -guess, beside it.
    predictors
        What to try, with commas between.
    split
        Ranks of each participant, within the study's bounds and budget: Fluid=2,Solid=1; by default as its campaign
        recommends, else the first one that it measures.
    windows
        Time windows of each run, warm-up included; by default those of the study, often too few for guesses that learn.
    warmup
        Time windows that are run and not compared; by default those of the study.
    """
    from precice_lb.calibrate import read_study
    from precice_lb.calibrate.guess_try import first_split, try_guesses
    from precice_lb.calibrate.versions import names_of, started
    from precice_lb.guess.choose import MODES
    from precice_lb.report.documents import JSON_NAME
    from precice_lb.report.guess_try_view import comparison_blocks
    from precice_lb.report.progress import CampaignProgress
    from precice_lb.report.terminal import console

    read = read_study(study)
    given = {"windows": windows, "warmup_windows": warmup}
    runs = read.runs.model_copy(update={key: value for key, value in given.items() if value is not None})
    if not 0 <= runs.warmup_windows < runs.windows:
        raise DataError(
            f"--windows, --warmup: expected more windows than {runs.warmup_windows} of warm-up, found {runs.windows}"
        )
    read = read.model_copy(update={"runs": runs})
    if split:
        read, ranks = started(read, split_values(split, names_of(read)))
    elif (read.campaign_directory / JSON_NAME).is_file():
        read, ranks = started(read, recommended_split(read.campaign_directory))
    else:
        ranks = first_split(read)
    place = output or read.path.with_name(f"{read.path.stem}-guess")
    names = list(dict.fromkeys(name.strip() for name in predictors.split(",")))
    if unknown := [name for name in names if name not in MODES]:
        raise DataError(f"--predictors: expected some of {', '.join(MODES)}, found {unknown[0]!r}")
    with CampaignProgress(console(sys.stderr)) as progress:
        found = try_guesses(read, ranks, place, progress, names)
    print_result(
        format,
        lambda: comparison_blocks(found, ranks, read.layouts),
        lambda: {"split": ranks, "windows": runs.windows, **found.to_dict()},
        unit=unit,
        whole_lines=True,
    )
    if format == "table":
        print(found.verdict)
    return 0 if found.runs[0].error is None and found.others else 1
