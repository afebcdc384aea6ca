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
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.campaign.worth import TARGET_REGRET, Prospects, next_runs
from precice_lb.dataset.measurements import is_of
from precice_lb.dataset.records import mean_known
from precice_lb.layout import Layouts, count_text
from precice_lb.names import visible
from precice_lb.report import recommendation as view
from precice_lb.report.blocks import Block, CodeBlock, DefinitionList, Missing, Page, Paragraph, Section, Story, Table
from precice_lb.report.charts import CHARTS
from precice_lb.report.render import attempted
from precice_lb.report.runs import imbalance_section, iterations_section, quality_section, split_of, window_section
from precice_lb.report.summary import RunSummary, summarise
from precice_lb.report.text import listed, percent, ranks_text, seconds_unit, short_names
from precice_lb.rooms import hooks

if TYPE_CHECKING:
    from precice_lb.dataset import CoupledRun
    from precice_lb.recommend import Recommendation

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib", "h5py")
# Hosts, runs and files beyond these are counted, not named.
_NAMED = 6
_NO_RUNS = (
    "No recorded run is among the sources: record one with precice-lb run, or import preCICE's profiling files with "
    "precice-lb import, and give its stores as a source."
)
_NO_PLAN = (
    "Other budgets and splits near the recommended one were not looked at: precice-lb report does, where a model "
    "predicts them, and in Python recommend(…, within=0.05)."
)


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
    # A directory with launch scripts, where there is one.
    launch: Path | None = None
    # Below this expected regret another run is not worth it, as of the study's ``runs.target_regret``.
    target_regret: float = TARGET_REGRET
    # What the directory says above its runs.
    story: Story | None = None
    # When the report was made.
    written: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    @cached_property
    def names(self) -> dict[str, str]:
        """How to write each participant's name in tables: in one line, long ones without their middle."""
        return short_names(self._participants, 40)

    @cached_property
    def labels(self) -> dict[str, str]:
        """How to write it in figures, where there is less room."""
        return short_names(self._participants, 16)

    @property
    def _participants(self) -> dict[str, None]:
        """Names, those of the split first."""
        return dict.fromkeys([*self.recommendation.split, *(who for run in self.runs for who in run.participants)])

    @cached_property
    def repeats(self) -> list[CoupledRun]:
        """Recorded runs of the recommended versions with the split that is nearest to the recommended one.

        The fastest first; runs without windows after warm-up only where there are no others.
        """
        split = self.recommendation.split

        def cores(run: CoupledRun) -> list[int]:
            return [run.participants[who].cores for who in split]

        def distance(run: CoupledRun) -> float:
            ratios = [count / wanted for count, wanted in zip(cores(run), split.values(), strict=True)]
            return sum(abs(max(ratio, 1 / ratio) - 1) for ratio in ratios)

        versions = self.recommendation.versions
        whole = [run for run in self.runs if is_of(run.versions, versions) and set(run.participants) >= set(split)]
        judged = [run for run in whole if math.isfinite(_window(run))] or whole
        nearest = cores(min(judged, key=distance)) if judged else []
        return sorted((run for run in judged if cores(run) == nearest), key=_window)

    @property
    def shown_run(self) -> CoupledRun:
        """That with the median window among them, of an even number the faster one of the middle."""
        if not self.repeats:
            raise Missing(_NO_RUNS)
        return self.repeats[(len(self.repeats) - 1) // 2]

    @cached_property
    def shown_summary(self) -> RunSummary:
        """What that run spent its time on."""
        return summarise([self.shown_run])[0]

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
    """Say in two sentences what to do and how sure that is, with the numbers and the figure that matter most."""
    recommendation, names = evidence.recommendation, evidence.names
    lead, reason = view.opening(recommendation, names)
    # The figure stands beside what follows, so that a first screen has both.
    yield from (lead, CHARTS["comparison"](recommendation), reason, DefinitionList(tuple(_tiles(evidence)), tiles=True))
    yield from (Paragraph(warning, "warning") for warning in recommendation.warnings)
    yield view.split_table(recommendation, names)
    yield from view.versions_tables(recommendation, names)
    yield from view.failed_tables(recommendation, names)
    yield DefinitionList(tuple(view.plan_facts(recommendation)))


def _tiles(evidence: Evidence) -> Iterator[tuple[str, str]]:
    recommendation = evidence.recommendation
    unit, split, layouts = seconds_unit([recommendation.window_seconds]), recommendation.split, recommendation.layouts
    names = view.versioned(evidence.names, recommendation.versions)
    if len(split) <= 3:
        yield from ((names[who], count_text(who, count, layouts)) for who, count in split.items())
    else:
        # The split of many participants stands in the table.
        yield view.ranks_word(recommendation), view.split_text(split, layouts)
    low, high = recommendation.interval
    yield "window time", unit.text(recommendation.window_seconds)
    if np.isfinite([low, high]).all():
        yield f"{percent(recommendation.level, 0)} interval", f"{unit.number(low)}–{unit.text(high)}"
    for kind in ("present", "equal"):
        other = recommendation.alternatives.get(kind)
        if other is not None:
            yield f"faster than the {view.label(kind, other)}", percent(other.gain)
            break
    yield "load imbalance", percent(recommendation.imbalance)


def comparison_section(evidence: Evidence) -> Iterator[Block]:
    """Set the split beside the present, the equal and the DoF-proportional one."""
    recommendation = evidence.recommendation
    yield Paragraph(
        "A window lasts until the slowest participant is done and its partners have its data; who is done earlier "
        "waits. A better split turns waiting into work."
    )
    yield view.comparison_table(recommendation)
    option = ",".join(f"{evidence.labels[who]}=…" for who in recommendation.split)
    unknowns = recommendation.measurements.degrees_of_freedom
    known = all(unknowns.get(who, 0.0) > 0 for who in recommendation.split)
    missing = []
    if "present" not in recommendation.alternatives:
        missing.append(f"the split in use (--present {option})")
    if "degrees-of-freedom" not in recommendation.alternatives and not known:
        missing.append("the degrees of freedom (participants.….degrees_of_freedom of the study, or --set)")
    if missing:
        yield Paragraph(f"Not compared, as it was not told: {listed(missing)}.", "missing")


def scaling_section(evidence: Evidence) -> Iterator[Block]:
    """Show each participant's time over its ranks: model, interval, measurements, recommended and present counts."""
    recommendation, names = evidence.recommendation, evidence.names
    yield CHARTS["scaling"](recommendation)
    yield view.evidence_table(recommendation, names)
    yield from view.measured_tables(recommendation)
    yield DefinitionList(tuple(view.facts(recommendation, names)))


def landscape_section(evidence: Evidence) -> Iterator[Block]:
    """Show the window time over the split: a curve for two participants, and the splits near the recommended one."""
    recommendation = evidence.recommendation
    shown: list[Block] = [CHARTS["landscape"](recommendation)] if len(recommendation.split) == 2 else []
    shown += view.near_tables(recommendation)
    if not shown:
        raise Missing(_NO_PLAN)
    yield Paragraph("How much is lost by a rank more here and a rank less there? A flat valley forgives rounding.")
    yield from shown


def budget_section(evidence: Evidence) -> Iterator[Block]:
    """Show window time against core-hours over all budgets."""
    recommendation = evidence.recommendation
    if recommendation.plan is None:
        raise Missing(_NO_PLAN)
    yield from (CHARTS["budget"](recommendation), CHARTS["cost"](recommendation))
    yield from view.tradeoff_tables(recommendation)


def next_text(evidence: Evidence) -> str:
    """Say whether another run is worth it, and which; empty where that is not known."""
    prospects = evidence.prospects
    if math.isnan(prospects.regret):
        return ""
    slower = f"the recommended split is expected to be {percent(prospects.regret, 2)} slower than the best one"
    stops = f"the {percent(prospects.target_regret)} below which calibration stops"
    if not prospects.is_worth_it:
        why = f"less than {stops}"
        if prospects.regret > prospects.target_regret:
            why = "and no other run is expected to change that: the answer is stable"
        return f"Another run is not worth it: {slower}, {why}."
    text = f"{slower[0].upper()}{slower[1:]}, more than {stops}, "
    if not prospects.runs:
        return f"{text}and no single run would change the decision; repeat runs near it to learn how much they differ."
    best = ranks_text(prospects.runs[0].split, evidence.names, evidence.recommendation.layouts)
    return f"{text}as far as the measurements tell. Measure {best} next: it removes most of that per core-hour."


def next_section(evidence: Evidence) -> Iterator[Block]:
    """Say whether another run is worth it, and which."""
    recommendation = evidence.recommendation
    if not (text := next_text(evidence)):
        raise Missing(
            f"What another run is worth is not known: {recommendation.learner} draws no curves. "
            "Recommend with another learner, such as bayes, to learn which run would tell most."
        )
    yield Paragraph(text)
    rows = [
        {
            view.as_above(recommendation): view.split_text(run.split, recommendation.layouts),
            "expected regret after it": percent(run.regret, 2),
            "core-h/1000 windows": f"{run.core_seconds / 3.6:.3g}",
        }
        for run in evidence.prospects.runs
    ]
    if rows:
        yield Table.of("Runs that would tell most", rows)


def launch_section(evidence: Evidence) -> Iterator[Block]:
    """Say how to start the recommended split."""
    if (folder := evidence.launch) and (scripts := [*folder.glob("run.sh"), *folder.glob("job.sbatch")]):
        yield Paragraph(
            f"{visible(str(folder))} holds the split ready to use: "
            "run.sh for this machine or an allocation, job.sbatch for Slurm."
        )
        for path in scripts:
            text = path.read_text(encoding="utf-8", errors="replace").expandtabs(4)
            shown = "\n".join(map(visible, re.split(r"\r\n|\r|\n", text)))
            yield CodeBlock(path.name, shown.rstrip("\n"))
        return
    layouts = evidence.recommendation.layouts
    started = evidence.shown_run.participants if evidence.repeats else {}
    option: list[str] = []
    lines: list[str] = []
    for who, count in evidence.recommendation.split.items():
        layout = layouts.get(who, Layouts()).of(count)
        option.append(f"{who}={f'{layout.ranks}x{layout.threads}' if who in layouts else count}")
        command = str(started[who].metadata.get("command", "")) if who in started else ""
        start = f"mpiexec -n {layout.ranks} {visible(command or shlex.quote(f'<solver of {evidence.names[who]}>'))} &"
        lines.append(f"OMP_NUM_THREADS={layout.threads} {start}" if who in layouts else start)
    yield Paragraph(
        "Start every participant in its directory with its ranks, as below. For pinned cores, job scripts and other "
        "launchers describe the case in a study file: precice-lb launch --study study.toml --split "
        f"{shlex.quote(visible(','.join(option)))}."
    )
    yield CodeBlock("each participant with its ranks", "\n".join([*lines, "wait"]))


def provenance_section(evidence: Evidence) -> Iterator[Block]:
    """Say with what, from what and how the report was made."""
    yield Paragraph("The command below makes this report again from the same sources.")
    yield DefinitionList(tuple((key, visible(text)) for key, text in _provenance(evidence) if text))


def _provenance(evidence: Evidence) -> Iterator[tuple[str, str]]:
    yield "made", f"{evidence.written:%Y-%m-%d %H:%M} UTC"
    yield "command", evidence.command or "from Python"
    yield "seed", f"{evidence.seed} (the same seed gives the same numbers)"
    yield "versions", ", ".join(_versions())
    yield "report made on", f"{platform.node() or 'unknown host'}, {platform.platform()}"
    if metadata := [part.metadata for run in evidence.runs for part in run.participants.values()]:
        backends = (f"{each['backend']} {each.get('precice_version', '')}".strip() for each in metadata)
        recorders = (f"precice_lb {v}" for each in metadata if (v := each.get("precice_lb_version")))
        pythons = (f"Python {v}" for each in metadata if (v := each.get("python_version")))
        hosts = (
            f"{host} ({cpu})" if (cpu := each.get("cpu_model")) else host
            for each in metadata
            if (host := each.get("hostname"))
        )
        yield "runs recorded on", _some(hosts, "hosts") or "unknown hosts"
        yield "runs recorded with", _some([*backends, *recorders, *pythons], "versions")
        yield "runs", _some(map(_run_text, evidence.runs), "runs")
        yield "coupled case", _some((run.case for run in evidence.runs), "cases")
        yield "configuration", _some((str(each.get("configuration_path", "")) for each in metadata), "files")
    yield "sources", _some(map(_source_text, evidence.sources), "sources") or "arrays in memory"
    yield from ((f"full name of {name}", who) for who, name in evidence.names.items() if name != who)


def _versions() -> Iterable[str]:
    for name in ("precice_lb", *_LIBRARIES):
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{name} from its source"
    yield f"Python {platform.python_version()}"


def _run_text(run: CoupledRun) -> str:
    began = min(int(part.metadata["started_unix_ns"]) for part in run.participants.values())
    when = datetime.datetime.fromtimestamp(began / 1e9, datetime.timezone.utc)
    return f"{run.name} ({split_of(run, run.participants)}, {when:%Y-%m-%d %H:%M} UTC)"


def _source_text(path: Path) -> str:
    return f"{path} (SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()})" if path.is_file() else str(path)


def _some(texts: Iterable[str], what: str) -> str:
    different = list(dict.fromkeys(filter(None, texts)))
    more = f" and {len(different) - _NAMED} more {what}" if len(different) > _NAMED else ""
    return "; ".join(different[:_NAMED]) + more


# By name, which is its anchor: the title, and what says it. Those of rooms come between these and the last.
_SECTIONS: dict[str, tuple[str, Callable[[Evidence], Iterable[Block]]]] = {
    "recommendation": ("Recommendation", recommendation_section),
    "comparison": ("Beside other splits", comparison_section),
    "window": ("A typical window", window_section),
    "scaling": ("Scaling curves", scaling_section),
    "landscape": ("Window time over the split", landscape_section),
    "budget": ("Time against core-hours", budget_section),
    "iterations": ("Coupling iterations", iterations_section),
    "imbalance": ("Imbalance inside participants", imbalance_section),
}
_LAST_SECTIONS = {
    "quality": ("Data quality", quality_section),
    "next": ("What to measure next", next_section),
    "launch": ("How to launch", launch_section),
    "provenance": ("Provenance", provenance_section),
}


def build_page(evidence: Evidence) -> Page:
    """Make all sections of a report."""
    recommendation, story = evidence.recommendation, evidence.story
    case = f", {view.parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    makers = {name: (title, [make]) for name, (title, make) in _SECTIONS.items()}
    for name, title, make in hooks("page_section"):
        makers.setdefault(name, (title, []))[1].append(make)
    makers |= {name: (title, [make]) for name, (title, make) in _LAST_SECTIONS.items()}
    sections = [_section(name, title, makes, evidence) for name, (title, makes) in makers.items()]
    title = f"Recommended split: {view.recommended_text(recommendation, evidence.names)}"
    if story is not None:
        # What it says comes first: a chain's own decisions know what a change costs, and a recommendation does not.
        sections.insert(0, _section(story.name, story.title, [lambda _: story.section()], evidence))
        title = story.line
    subtitle = f"{visible(recommendation.schedule)}, {recommendation.total_ranks} {recommendation.counted}{case}"
    return Page(title, subtitle, tuple(sections))


def _section(
    name: str, title: str, makes: Iterable[Callable[[Evidence], Iterable[Block]]], evidence: Evidence
) -> Section:
    def made() -> tuple[Block, ...]:
        try:
            return tuple(block for make in makes for block in make(evidence))
        except Missing as missing:
            return (Paragraph(str(missing), "missing"),)

    blocks = attempted(f"the report's section {name!r}", made)
    text = "This section could not be made; the command that wrote the report says why."
    return Section(name, title, blocks or (Paragraph(text, "missing"),))


def story_page(story: Story, problem: str) -> Page:
    """Make a page of what a directory says above its runs alone, with what stands against a recommendation."""
    missing = Paragraph(f"No split is recommended from its runs by now: {problem}", "missing")
    section = Section(story.name, story.title, (*story.section(), missing))
    return Page(story.line, story.study, (section,))
