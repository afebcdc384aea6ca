"""What is said of a recommendation, as sentences and tables: terminal and page are made of the same ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.layout import Layouts
from precice_lb.models.base import formula_of
from precice_lb.recommend.result import versions_text
from precice_lb.report.blocks import (
    Block,
    DefinitionList,
    Paragraph,
    SecondsUnit,
    Table,
    listed,
    percent,
    ranks_text,
    seconds_unit,
)
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.recommend import Alternative, Recommendation

_LABELS = {
    "equal": "equal split",
    "degrees-of-freedom": "DoF-proportional split",
    "present": "present split",
    "in-turns": "split in turns on the same cores",
    "recommended": "recommended split",
}
# Rows of the table of budgets.
_ROWS = 9
# Warnings that a screen shows.
_WARNINGS = 3


def screen_blocks(
    recommendation: Recommendation, names: Mapping[str, str], *, advice: str = "", verbose: bool = False
) -> list[Block]:
    """Say what fits on a screen, the answer last, and what to do next; ``verbose`` puts all else before it."""
    texts = [str(warning) for warning in recommendation.warnings]
    if recommendation.failed_splits:
        texts.append(f"{plural(len(recommendation.failed_splits), 'split')} failed, and so not recommended")
    if len(texts) > _WARNINGS and not verbose:
        texts[_WARNINGS:] = [f"{len(texts) - _WARNINGS} more, with --verbose or in the report"]
    blocks = [*details(recommendation, names), Paragraph("")] if verbose else []
    blocks += [Paragraph(text, "missing", "warning") for text in texts]
    blocks += [Paragraph(answer(recommendation, names), "lead"), Paragraph(gain(recommendation, names))]
    return [*blocks, Paragraph(advice)] if advice else blocks


def details(recommendation: Recommendation, names: Mapping[str, str]) -> Iterator[Block]:
    """Tabulate what a recommendation rests on and what else would be possible."""
    yield split_table(recommendation, names)
    yield from versions_tables(recommendation, names)
    if recommendation.alternatives:
        yield comparison_table(recommendation)
    yield from near_tables(recommendation)
    yield from tradeoff_tables(recommendation)
    yield from measured_tables(recommendation)
    yield from failed_tables(recommendation, names)
    yield evidence_table(recommendation, names)
    yield DefinitionList((*facts(recommendation, names), *plan_facts(recommendation)))


def label(kind: str, other: Alternative | None = None) -> str:
    """Name a split as people read it: ``equal`` is "equal split", or "equal split within the bounds"."""
    return f"{_LABELS.get(kind, kind)}{' within the bounds' if other is not None and other.meant else ''}"


def versioned(names: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """Write names of participants with their versions: Fluid (gpu)."""
    return {who: f"{name} ({visible(versions[who])})" if versions.get(who) else name for who, name in names.items()}


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Write the parameters of a case: ``level = 8, mesh = fine``."""
    texts = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in parameters.items()}
    return ", ".join(f"{visible(name)} = {visible(text)}" for name, text in texts.items())


def split_text(split: Mapping[str, int], layouts: Mapping[str, Layouts]) -> str:
    """Write a split in the order of the participants: ``24 + 1 x 8 threads``."""
    return " + ".join(layouts.get(who, Layouts()).text(count) for who, count in split.items())


def ranks_word(recommendation: Recommendation) -> str:
    """Name what numbers of a split are: ranks, or cores where a participant is split by them."""
    return "cores" if recommendation.layouts else "ranks"


def recommended_text(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Write the recommended split as a sentence does, with its versions."""
    return ranks_text(recommendation.split, versioned(names, recommendation.versions), recommendation.layouts)


def answer(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Say in a sentence what to do and how sure its time is."""
    unit = unit_of(recommendation)
    low, high = recommendation.interval
    split = recommended_text(recommendation, names)
    certainty = "interval unknown"
    if math.isfinite(low) and math.isfinite(high):
        certainty = f"{percent(recommendation.level, 0)} interval {unit.number(low)} to {unit.text(high)}"
    case = f" for {parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    takes = f"one time window should take {unit.text(recommendation.window_seconds)} in the mean ({certainty})"
    if len(recommendation.split) == 1:
        return f"Nothing to split, as there is one participant alone: with {split}{case} {takes}."
    return f"Give {split}{case}: {takes} at a load imbalance of {percent(recommendation.imbalance)}."


def unit_of(recommendation: Recommendation) -> SecondsUnit:
    """Choose the unit of window times."""
    return seconds_unit([recommendation.window_seconds])


def gain(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Say how much faster this is than other splits, and on what that rests."""
    counts = listed(f"{len(rows)} of {names[who]}" for who, rows in recommendation.measurements.samples.items())
    basis = f"judged from measurements ({counts}) and the coupling {visible(recommendation.schedule)}"
    compared = listed(_compared(kind, other) for kind, other in recommendation.alternatives.items())
    return f"This is {compared}, {basis}." if compared else f"This is {basis}."


def _compared(kind: str, other: Alternative) -> str:
    text = f"{percent(abs(other.gain))} {'faster' if other.gain > 0.0 else 'slower'} than"
    text = f"{'as fast as' if abs(other.gain) < 5e-4 else text} the {label(kind, other)}"
    if kind != "present" or math.isnan(other.probability):
        return text
    return f"{text} (faster at all with a probability of {percent(other.probability, 0)})"


def split_table(recommendation: Recommendation, names: Mapping[str, str]) -> Table:
    """Tabulate ranks with mean compute time and wait per window of each participant, and the window time below."""
    unit, what = unit_of(recommendation), ranks_word(recommendation)
    head = f"{percent(recommendation.level, 0)} of {what}"
    solve, wait = f"solve ({unit.symbol})", f"wait ({unit.symbol})"
    shown = versioned(names, recommendation.versions)
    rows = [
        {
            "participant": shown[who],
            what: split_text({who: count}, recommendation.layouts),
            **({head: "{}–{}".format(*between)} if (between := recommendation.rank_intervals.get(who)) else {}),
            solve: unit.number(recommendation.compute_seconds[who]),
            wait: unit.number(recommendation.waits[who]),
            "wait share": percent(recommendation.waits[who] / recommendation.window_seconds),
        }
        for who, count in recommendation.split.items()
    ]
    total = {what: str(sum(recommendation.split.values())), solve: unit.number(recommendation.window_seconds)}
    rows.append(dict.fromkeys(rows[0], "") | {"participant": "window time"} | total)
    return Table.of("Predicted means per time window (solve with own mapping and overhead)", rows)


def comparison_table(recommendation: Recommendation) -> Table:
    """Set the recommended split beside others, with the probability that it is faster where drawn curves say that."""
    unit, layouts = unit_of(recommendation), recommendation.layouts
    rows = [(label("recommended"), recommendation.split, recommendation.window_seconds, "", "")]
    for kind, other in recommendation.alternatives.items():
        name = f"{label(kind, other)}{f', not {split_text(other.meant, layouts)}' if other.meant else ''}"
        shares = percent(other.gain), percent(other.probability, 0)
        rows.append((name, other.split, other.window_seconds, *shares))
    header = ("split", ranks_word(recommendation), f"window ({unit.symbol})", "gain over it", "faster with")
    cells = tuple(
        (name, split_text(split, layouts), unit.number(seconds), *shares) for name, split, seconds, *shares in rows
    )
    return Table("Compared with", header, cells, (0, 1))


def measured_tables(recommendation: Recommendation) -> list[Table]:
    """Set every measured split beside its prediction, the shortest measured window first."""
    unit = seconds_unit([comparison.measured for comparison in recommendation.comparisons])
    rows = [
        {
            ranks_word(recommendation): split_text(comparison.split, recommendation.layouts),
            "runs": str(len(comparison.runs)),
            f"measured ({unit.symbol})": unit.number(comparison.measured),
            f"predicted ({unit.symbol})": unit.number(comparison.predicted),
            "off by": percent(comparison.predicted / comparison.measured - 1),
            "noise": percent(comparison.standard_error, 0),
        }
        for comparison in recommendation.comparisons
    ]
    return [Table.of("Mean windows of measured splits, and what the curves predict", rows)] if rows else []


def evidence_table(recommendation: Recommendation, names: Mapping[str, str]) -> Table:
    """Tabulate every measurement with what the model says about it."""
    measurements = recommendation.measurements
    unit = seconds_unit(float(value) for rows in measurements.samples.values() for value in rows[:, 1])
    of_cases = any(recommendation.modelled[who] for who in recommendation.split)
    rows = []
    for who in recommendation.split:
        samples, models = np.asarray(measurements.samples[who], dtype=float), recommendation.predicted_again(who)
        columns = {key: measurements.parameters[who][key] for key in recommendation.modelled[who]}
        for row in np.lexsort((samples[:, 0], *reversed(columns.values()))):
            (count, seconds), model = samples[row], float(models[row])
            case = parameters_text({key: float(values[row]) for key, values in columns.items()})
            rows.append(
                {
                    "participant": names[who],
                    **({"case": case} if of_cases else {}),
                    ranks_word(recommendation): measurements.layouts.get(who, Layouts()).text(int(count)),
                    f"measured ({unit.symbol})": unit.number(seconds),
                    f"model ({unit.symbol})": unit.number(model),
                    "model off by": percent(model / seconds - 1),
                }
            )
    title = "Measured compute time per window (median of each run), and the model"
    return Table.of(title, rows, (0, 1) if of_cases else (0,))


def failed_tables(recommendation: Recommendation, names: Mapping[str, str]) -> list[Table]:
    """Tabulate splits whose runs failed, with the lines of their logs that say why; no table where none did."""
    rows = [
        {
            ranks_word(recommendation): ranks_text(failed.ranks, names, recommendation.layouts)
            + (f" ({visible(versions_text(failed.versions))})" if failed.versions else "")
            + ("" if set(failed.ranks) == set(recommendation.split) else ", whatever the others have"),
            "runs": str(len(failed.runs)),
            "why": " | ".join(map(visible, failed.reasons)) or "nothing in the logs",
        }
        for failed in recommendation.failed_splits
    ]
    return [Table.of("Failed, and so not recommended", rows, (0, 2))] if rows else []


def near_tables(recommendation: Recommendation) -> list[Table]:
    """Tabulate the splits that are nearly as good, for people who round."""
    plan, unit = recommendation.plan, unit_of(recommendation)
    if plan is None:
        return []
    counted = [recommendation.unit] if recommendation.unit != "ranks" else []
    rows = tuple(
        (split_text(near.split, recommendation.layouts), *(str(near.used.get(key, "")) for key in counted),
         unit.number(near.window_seconds), percent(near.longer))
        for near in plan.near
    )  # fmt: skip
    title = f"Best splits within {percent(plan.within, 0)} of the recommended one"
    if plan.step > 1:
        title += f", in steps of {plan.step} {ranks_word(recommendation)}"
    header = (ranks_word(recommendation), *counted, f"window ({unit.symbol})", "longer")
    return [Table(title if rows else f"{title}: none other", header, rows)]


def tradeoff_tables(recommendation: Recommendation) -> list[Table]:
    """Tabulate window time and core-hours over budgets, with the knee and what is recommended."""
    plan, unit = recommendation.plan, unit_of(recommendation)
    if plan is None:
        return []
    points, marked = list(plan.tradeoff.points), {"knee": plan.knee, "recommended": plan.chosen}
    if plan.chosen not in points:
        points = sorted([*points, plan.chosen], key=lambda point: (point.cores, -point.window_seconds))
    shown = np.linspace(0, len(points) - 1, min(_ROWS, len(points))).round().astype(int).tolist()
    rows = [
        {
            f"budget ({recommendation.counted})": str(point.budget),
            "split": split_text(point.split, recommendation.layouts),
            f"window ({unit.symbol})": unit.number(point.window_seconds),
            "core-h/1000 windows": f"{1000 * point.core_hours:.4g}",
            "efficiency": percent(point.efficiency, 0),
            "": ", ".join(text for text, marked_point in marked.items() if point == marked_point),
        }
        for index, point in enumerate(points)
        if index in shown or point in marked.values()
    ]
    return [Table.of("Time against cost", rows, (1, 5))]


def versions_tables(recommendation: Recommendation, names: Mapping[str, str]) -> list[Table]:
    """Set every combination of versions with its best split beside the recommended one; nothing where there is one."""
    if len(recommendation.choices) < 2:
        return []
    unit, rows = unit_of(recommendation), []
    for choice in recommendation.choices:
        low, high = choice.interval
        versions = (f"{names[who]} {visible(version) or 'unnamed'}" for who, version in choice.versions.items())
        split = " + ".join(str(choice.layouts.get(who, count)) for who, count in choice.split.items())
        rows.append(
            {
                "version": ", ".join(versions),
                ranks_word(recommendation): split or f"none: {visible(choice.problem)}",
                **({"nodes": _nodes(choice.used)} if "nodes" in recommendation.used else {}),
                f"window ({unit.symbol})": unit.number(choice.window_seconds),
                f"{percent(recommendation.level, 0)} interval": f"{unit.number(low)}–{unit.number(high)}",
                "gain over it": percent(choice.gain),
                "faster with": percent(choice.probability, 0),
            }
        )
    return [Table.of("Versions, each with its own best split, the recommended one first", rows, (0, 1))]


def _nodes(used: Mapping[str, int]) -> str:
    """Say how many nodes, of which kinds where there are several."""
    kinds = [f"{count} {key.removesuffix(' nodes')}" for key, count in used.items() if key.endswith(" nodes") and count]
    return " + ".join(kinds) or str(used.get("nodes", ""))


def facts(recommendation: Recommendation, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """List what the recommendation rests on, as (key, text) pairs."""
    yield "coupling", recommendation.schedule
    yield "budget", _budget(recommendation)
    yield "learner", recommendation.learner
    shown = versioned(names, recommendation.versions)
    for who, model in recommendation.models.items():
        counts = recommendation.measurements.samples[who][:, 0]
        word = "core" if who in recommendation.layouts else "rank"
        text = f"{plural(len(counts), 'measurement')} at {_between(counts)} {word}s"
        for place, column in enumerate(recommendation.modelled[who], 1):
            text += f", {visible(column)} (x{place}) {_between(recommendation.measurements.parameters[who][column])}"
        formula = formula_of(model)
        law = getattr(model, "learner_name", type(model).__name__) if formula is None else f"{formula.text()} seconds"
        yield f"model of {shown[who]}", f"{law}; {text}"
    if recommendation.measurements.sources:
        yield "measurements from", ", ".join(recommendation.measurements.sources)


def _between(values: Any) -> str:
    low, high = values.min(), values.max()
    return f"{low:g} to {high:g}" if low < high else f"{low:g}"


def _budget(recommendation: Recommendation) -> str:
    unit, total, ranks = recommendation.counted, recommendation.total_ranks, sum(recommendation.split.values())
    used = recommendation.used.get(unit, ranks)
    ranks_of_it = f" for {recommendation.used.get('ranks', ranks)} ranks" if recommendation.unit != "ranks" else ""
    rest = f"; {total - used} more are not worth it" if used < total else ""
    return f"{used} of {total} {unit}{ranks_of_it}{rest}"


def plan_facts(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    """List what sets the window time, how sure the optimum is, and where more cores begin to pay less."""
    if critical := recommendation.critical:
        yield "window time set by", " → ".join((*critical, critical[0]) if len(critical) > 1 else critical)
    if recommendation.proof and not math.isnan(recommendation.gap):
        text = f"at most {percent(recommendation.gap)} above the least possible mean window time"
        yield "optimum", f"{text} (proof: {recommendation.proof})"
    if recommendation.plan is not None:
        knee, unit = recommendation.plan.knee, recommendation.counted
        most = recommendation.plan.tradeoff.points[-1].budget
        beyond = f"none up to {most} {unit}" if knee is None else f"beyond {knee.budget} {unit} more of them pay less"
        yield "knee", beyond
