"""What a campaign would do, told without starting or writing anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from precice_lb.calibrate.design_study import StudyDesign
from precice_lb.calibrate.prepare import copied_sizes
from precice_lb.calibrate.result import first_splits
from precice_lb.calibrate.runs import CampaignRuns
from precice_lb.calibrate.state import CampaignState
from precice_lb.calibrate.study import Study
from precice_lb.calibrate.versions import chosen
from precice_lb.layout import counted_text, split_text
from precice_lb.names import with_versions
from precice_lb.plural import plural, span


def dry_run(study: Study, directory: Path) -> Iterator[str]:
    """Tell, in lines, what the campaign of a study would run next.

    Parameters
    ----------
    study
        What to measure.
    directory
        Where the campaign lives, or would.

    Raises
    ------
    CalibrationError
        As `run_campaign` does before its first run.
    """
    directory = Path(directory).expanduser().resolve()
    launcher = study.launcher.ready(directory)
    state = CampaignState.load(directory) or CampaignState(study.identity())
    if state.finished:
        state.take_identity(study.identity(), directory, resumes=launcher.resumes)
    study = study.narrowed(state.runs)
    runs, design = CampaignRuns(study, launcher, state, directory), StudyDesign(study, directory)
    tried = [with_versions(run.split, run.versions) for run in state.finished]
    proposal = design.ask(tried)
    yield f"nothing is started; this is what calibrate would do in {directory}"
    if proposal is None:
        yield f"nothing is left to run: {design.conclusion or 'each split of the study was measured'}"
        return
    runs.check_room()
    runs.reserve()
    sizes = copied_sizes(study, directory)
    yield f"each run works on a copy of {study.case_directory}: {plural(len(sizes), 'file')}, {sum(sizes) / 1e6:.1f} MB"
    bounds = (f"{name} {span(*ends, study.unit)}" for name, ends in study.bounds.items())
    yield f"bounds: {', '.join(bounds)}, {plural(study.budget.ranks, study.unit)} in all"
    if held := getattr(launcher, "holding", None):
        yield from ("one job holds the nodes of all runs:", *_indented(held))
    only = study.splits is None and len(first_splits(study)) == 1
    left = 1 if only else design.total - len(tried)
    record = runs.record(proposal)
    plan = runs.plan(record)
    launcher.check(plan.tasks)
    text = counted_text(with_versions(record.split, record.versions), with_versions(study.layouts, record.versions))
    yield f"run {len(tried) + 1} of at most {left + len(tried)}: {text} ({record.reason})"
    for participant in chosen(study, record.versions).participants:
        yield from (f"  {participant.name}, before: {command}" for command in participant.prepare)
    if launcher.scheduler is None:
        yield from (f"  {task.participant}: {shlex.join(task.command)}" for task in launcher.starts(plan))
    for path, content in launcher.files(plan).items():
        yield from (f"  {path}:", *_indented(content))
    if only:
        yield "only one split is possible: that run says what it takes"
    elif study.splits is None:
        yield "then: the split whose measurement is worth most by what was measured, until another run is not worth it"
    for split in study.splits or ():
        if split not in (record.split, *tried):
            yield f"then: {split_text(split, study.layouts)}"
    limits, largest = study.runs, min(study.budget.ranks, sum(high for _, high in study.bounds.values()))
    count = left * (1 + limits.retries)
    most = f"{count * largest * limits.time_limit_seconds / 3600:.3g} core-hours"
    most += f"; none begins after {limits.core_hours:g} core-hours (runs.core_hours)" if limits.core_hours else ""
    what = f"{plural(count, 'run')} of {limits.time_limit_seconds:g} s on {plural(largest, study.unit)}"
    yield f"at most {what}: {most}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
