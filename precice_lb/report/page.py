"""The report as a page: what was recommended and why, for someone who was not there.

`build_page` makes sections out of `Evidence`, and `precice_lb.report.render.write_report` renders them as one
self-contained HTML file, with every figure as SVG.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import math
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from precice_lb.campaign.time_limit import missing_limit
from precice_lb.campaign.worth import TARGET_REGRET, Prospects, next_runs
from precice_lb.dataset.measurements import is_of
from precice_lb.dataset.records import mean_known
from precice_lb.exceptions import DataError
from precice_lb.layout import Layouts
from precice_lb.report import recommendation as view
from precice_lb.report.blocks import (
    Block,
    CodeBlock,
    DefinitionList,
    Missing,
    Page,
    Paragraph,
    Section,
    Story,
    listed,
    percent,
    ranks_text,
    short_names,
)
from precice_lb.report.charts import comparison_chart, landscape_chart, scaling_chart
from precice_lb.report.render import attempted
from precice_lb.report.runs import NO_RUNS, quality_section, split_of, window_section
from precice_lb.rooms import hooks
from precice_lb.text import checked_list, first_of, script_command, visible

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun
    from precice_lb.recommend import Recommendation

_LIBRARIES = ("precice_lb", "numpy", "scipy", "scikit-learn", "matplotlib", "h5py")
# What stores say of runs, and by which entries.
_RECORDED = {"runs recorded on": ("hostname", "cpu_model"), "runs recorded with": ("backend", "precice_version")}


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a report is made of."""

    recommendation: Recommendation
    # The recorded runs it rests on; none where it rests on tables.
    runs: Sequence[CoupledRun] = ()
    # Files and directories it was made from.
    sources: tuple[Path, ...] = ()
    # Of whatever is random in the models.
    seed: int = 0
    # The command line that makes the report again.
    command: str = ""
    # Scripts that start the recommended split, each in its own way.
    start_scripts: tuple[Path, ...] = ()
    # Below this expected regret another run is not worth it, as of the study's ``runs.target_regret``.
    target_regret: float = TARGET_REGRET
    # What the directory says above its runs.
    story: Story | None = None
    # When the report was made.
    written: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    def __post_init__(self) -> None:
        checked_list(self.sources, "sources", "paths", DataError)

    @cached_property
    def names(self) -> dict[str, str]:
        """How to write each name, those of the split first: in one line, long ones without their middle."""
        names = [*self.recommendation.split, *(who for run in self.runs for who in run.participants)]
        return short_names(dict.fromkeys(names), 40)

    @cached_property
    def repeats(self) -> list[CoupledRun]:
        """Recorded runs of the recommended versions with the split that is nearest to the recommended one.

        The fastest first; runs without windows after warm-up only where there are no others.
        """
        split, versions = self.recommendation.split, self.recommendation.versions

        def cores(run: CoupledRun) -> list[int]:
            return [run.participants[who].cores for who in split]

        def distance(run: CoupledRun) -> float:
            ratios = [count / wanted for count, wanted in zip(cores(run), split.values(), strict=True)]
            return sum(max(ratio, 1 / ratio) - 1 for ratio in ratios)

        whole = [run for run in self.runs if is_of(run.versions, versions) and set(run.participants) >= set(split)]
        judged = [run for run in whole if math.isfinite(_window(run))] or whole
        nearest = cores(min(judged, key=distance)) if judged else []
        return sorted((run for run in judged if cores(run) == nearest), key=_window)

    @property
    def shown_run(self) -> CoupledRun:
        """That with the median window among them, of an even number the faster one of the middle."""
        if not self.repeats:
            raise Missing(NO_RUNS)
        return self.repeats[(len(self.repeats) - 1) // 2]

    @cached_property
    def prospects(self) -> Prospects:
        """What further runs are worth."""
        return next_runs(self.recommendation, self.target_regret)


def _window(run: CoupledRun) -> float:
    """Mean seconds of the windows after warm-up, of the participant with the longest; NaN where unknown."""
    means = [
        run.time.of(who) * mean_known(part.window_seconds[run.steady(who)]) for who, part in run.participants.items()
    ]
    return max(means, default=math.nan)


def recommendation_section(evidence: Evidence) -> Iterator[Block]:
    """Say what to do, what it gains, how sure that is and how to start it, beside the figure that shows it."""
    recommendation, names = evidence.recommendation, evidence.names
    yield Paragraph(view.answer(recommendation, names), "lead")
    # The figure stands beside what follows, so that a first screen has all of it.
    yield comparison_chart(recommendation)
    yield Paragraph(view.gain(recommendation, names))
    yield CodeBlock("How to launch", "\n".join(_launch_lines(evidence)))
    yield from (Paragraph(problem, "missing") for problem in map(missing_limit, evidence.start_scripts) if problem)
    yield from (Paragraph(str(warning), "warning") for warning in recommendation.warnings)
    yield view.split_table(recommendation, names)
    yield from view.versions_tables(recommendation, names)
    yield from view.failed_tables(recommendation, names)
    yield DefinitionList(tuple(view.plan_facts(recommendation)))


def _launch_lines(evidence: Evidence) -> Iterator[str]:
    """Say how to start the recommended split: by a campaign's scripts, else rank by rank, as recorded runs began."""
    if evidence.start_scripts:
        yield "\n# or\n".join(script_command(script) for script in evidence.start_scripts)
        return
    layouts = evidence.recommendation.layouts
    started = evidence.shown_run.participants if evidence.repeats else {}
    for who, count in evidence.recommendation.split.items():
        layout = layouts.get(who, Layouts()).of(count)
        command = str(started[who].metadata.get("command", "")) if who in started else ""
        start = f"mpiexec -n {layout.ranks} {visible(command or shlex.quote(f'<solver of {evidence.names[who]}>'))} &"
        yield f"OMP_NUM_THREADS={layout.threads} {start}" if who in layouts else start
    yield "wait"


def splits_section(evidence: Evidence) -> Iterator[Block]:
    """Set the split beside the present, the equal and the DoF-proportional one, and those near it."""
    recommendation = evidence.recommendation
    yield view.comparison_table(recommendation)
    if len(recommendation.split) == 2:
        yield landscape_chart(recommendation)
    yield from view.near_tables(recommendation)
    yield from view.tradeoff_tables(recommendation)
    wanted = {"present": "the split in use (--present)", "degrees-of-freedom": "degrees of freedom (--set)"}
    if missing := [text for kind, text in wanted.items() if kind not in recommendation.alternatives]:
        yield Paragraph(f"Not compared, as it was not told: {listed(missing)}.", "missing")


def scaling_section(evidence: Evidence) -> Iterator[Block]:
    """Show each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    recommendation, names = evidence.recommendation, evidence.names
    yield scaling_chart(recommendation)
    yield view.evidence_table(recommendation, names)
    yield from view.measured_tables(recommendation)
    yield DefinitionList(tuple(view.facts(recommendation, names)))


def next_text(evidence: Evidence) -> str:
    """Say whether another run is worth it, and which; empty where that is not known."""
    prospects = evidence.prospects
    if math.isnan(prospects.regret):
        return ""
    slower = f"the recommended split is expected to be {percent(prospects.regret, 2)} slower than the best one"
    stops = f"calibration stops below {percent(evidence.target_regret)}"
    if not prospects.is_worth_it:
        if prospects.regret > evidence.target_regret:
            stops = "no run is expected to change that"
        return f"Another run is not worth it: {slower}; {stops}."
    if not prospects.runs:
        return f"Repeat runs near the recommended split to learn how much they differ: {slower}; {stops}."
    best = ranks_text(prospects.runs[0].split, evidence.names, evidence.recommendation.layouts)
    return f"Measure {best} next, which tells most per core-hour: {slower}; {stops}."


def next_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether another run is worth it, and which."""
    if not (text := next_text(evidence)):
        learner = evidence.recommendation.learner
        raise Missing(f"{learner} draws no curves; recommend with another learner, such as bayes")
    yield Paragraph(text)


def provenance_section(evidence: Evidence) -> Iterator[Block]:
    """Say with what, from what and how the report was made."""
    yield DefinitionList(tuple((key, visible(text)) for key, text in _provenance(evidence) if text))


def _provenance(evidence: Evidence) -> Iterator[tuple[str, str]]:
    yield "made", f"{evidence.written:%Y-%m-%d %H:%M} UTC"
    yield "command", evidence.command or "from Python"
    yield "seed", f"{evidence.seed} (the same seed gives the same numbers)"
    yield "versions", ", ".join([*map(_version, _LIBRARIES), f"Python {platform.python_version()}"])
    yield "report made on", f"{platform.node() or 'unknown host'}, {platform.platform()}"
    heads = [part.metadata for run in evidence.runs for part in run.participants.values()]
    for key, names in _RECORDED.items():
        yield key, _some([" ".join(str(head[name]) for name in names if head.get(name)) for head in heads])
    yield "runs", _some([f"{run.name} ({split_of(run, run.participants)})" for run in evidence.runs])
    yield "sources", _some(map(_source_text, evidence.sources)) or "arrays in memory"
    yield from ((f"full name of {name}", who) for who, name in evidence.names.items() if name != who)


def _version(library: str) -> str:
    try:
        return f"{library} {importlib.metadata.version(library)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{library} from its source"


def _source_text(path: Path) -> str:
    return f"{path} (SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()})" if path.is_file() else str(path)


def _some(texts: Iterable[str]) -> str:
    return first_of(list(dict.fromkeys(filter(None, texts))), 6)


# By name, which is its anchor: the title, and what says it. Those of rooms come between these and the last.
_SECTIONS: dict[str, tuple[str, Callable[[Evidence], Iterable[Block]]]] = {
    "recommendation": ("Recommendation", recommendation_section),
    "window": ("A typical window", window_section),
    "scaling": ("Scaling curves", scaling_section),
    "splits": ("Other splits", splits_section),
    "next": ("What to measure next", next_section),
    "quality": ("Data quality", quality_section),
}
_FOLDED = ("partners", "provenance")


def build_page(evidence: Evidence) -> Page:
    """Make all sections of a report; what there are no data for is named at the end, with what to set."""
    recommendation, story = evidence.recommendation, evidence.story
    of_rooms = {name: (heading, make) for name, heading, make in hooks("page_section")}
    wanted = {**_SECTIONS, **of_rooms, "provenance": ("Provenance", provenance_section)}
    title = f"Recommended split: {view.recommended_text(recommendation, evidence.names)}"
    if story is not None:
        # What it says comes first: a chain's own decisions know what a change costs, and a recommendation does not.
        wanted = {story.name: (story.title, lambda _: story.blocks()), **wanted}
        title = story.line
    sections: list[Section] = []
    missing: dict[str, list[str]] = {}
    for name, (heading, make) in wanted.items():
        try:
            blocks = attempted(f"the report's section {name!r}", partial(_blocks, make, evidence))
        except Missing as reason:
            missing.setdefault(str(reason), []).append(heading)
            continue
        if blocks is None:
            text = "This section could not be made; the command that wrote the report says why."
            blocks = (Paragraph(text, "missing"),)
        if blocks:
            sections.append(Section(name, heading, blocks, name in _FOLDED))
    if missing:
        reasons = tuple((", ".join(headings), f"{reason}.") for reason, headings in missing.items())
        sections.insert(-1, Section("missing", "Not in this report", (DefinitionList(reasons),)))
    case = f", {view.parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    subtitle = f"{visible(recommendation.schedule)}, {recommendation.total_ranks} {recommendation.counted}{case}"
    return Page(title, subtitle, tuple(sections))


def _blocks(make: Callable[[Evidence], Iterable[Block]], evidence: Evidence) -> tuple[Block, ...]:
    return tuple(make(evidence))


def story_page(story: Story, problem: str) -> Page:
    """Make a page of what a directory says above its runs alone, with what stands against a recommendation."""
    missing = Paragraph(f"No split is recommended from its runs by now: {problem}", "missing")
    section = Section(story.name, story.title, (*story.blocks(), missing))
    return Page(story.line, story.study, (section,))
