"""What a recommendation says, as plain sentences and tables; terminal and Markdown render the same ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.models.published.formula import formula_of
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.recommend.result import versions_text
from precice_lb.report.blocks import Table
from precice_lb.report.text import listed, percent, ranks_text, seconds_unit
from precice_lb.report.versions import versioned

if TYPE_CHECKING:
    from precice_lb.layout import Layouts
    from precice_lb.recommend import Alternative, Recommendation

_LABELS = {
    "equal": "equal split",
    "degrees-of-freedom": "DoF-proportional split",
    "present": "present split",
    "in-turns": "split in turns on the same cores",
    "recommended": "recommended split",
}


def label(kind: str, other: Alternative | None = None) -> str:
    """Name a split as people read it: ``equal`` is "equal split", or "equal split within the bounds"."""
    return f"{_LABELS.get(kind, kind)}{' within the bounds' if other is not None and other.meant else ''}"


def answer(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Say in a sentence what to do and how sure its time is."""
    unit = seconds_unit([recommendation.window_seconds])
    low, high = recommendation.interval
    shown = versioned(names, recommendation.versions)
    split = ranks_text(recommendation.split, shown, recommendation.layouts)
    certainty = "interval unknown"
    if math.isfinite(low) and math.isfinite(high):
        certainty = f"{percent(recommendation.level, 0)} interval {unit.number(low)} to {unit.text(high)}"
    case = f" for {parameters_text(recommendation.parameters)}" if recommendation.parameters else ""
    if len(recommendation.split) == 1:
        return (
            f"Nothing to split, as there is one participant alone: with {split}{case} one time window should take "
            f"{unit.text(recommendation.window_seconds)} in the mean ({certainty})."
        )
    return (
        f"Give {split}{case}: one time window should take {unit.text(recommendation.window_seconds)} in the mean "
        f"({certainty}) at a load imbalance of {percent(recommendation.imbalance)}."
    )


def gain(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Say how much longer other splits would take, and on what that rests."""
    samples = recommendation.measurements.samples
    counts = listed(f"{len(rows)} of {names[who]}" for who, rows in samples.items())
    basis = f"judged from measurements ({counts}) and the coupling {visible(recommendation.schedule)}"
    if not recommendation.alternatives:
        return f"This is {basis}."
    comparisons = [
        f"the {label(kind, other)} {_longer(other.gain)}{_probably(other.probability) if kind == 'present' else ''}"
        for kind, other in recommendation.alternatives.items()
    ]
    comparison = listed(comparisons)
    return f"{comparison[0].upper()}{comparison[1:]}, {basis}."


def _longer(gain: float) -> str:
    if abs(gain) < 5e-4:
        return "would take as long"
    return f"would take {percent(abs(gain))} {'longer' if gain > 0.0 else 'less'}"


def _probably(probability: float) -> str:
    return "" if math.isnan(probability) else f" (and longer at all with a probability of {percent(probability, 0)})"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Write the parameters of a case: ``level = 8, mesh = fine``."""
    said = (f"{value:g}" if isinstance(value, float) else str(value) for value in parameters.values())
    return ", ".join(f"{visible(name)} = {visible(text)}" for name, text in zip(parameters, said, strict=True))


def split_table(recommendation: Recommendation, names: Mapping[str, str]) -> Table:
    """Tabulate ranks with mean compute time and wait per window of each participant, and the window time below."""
    unit = seconds_unit([recommendation.window_seconds])
    window = recommendation.window_seconds
    between = recommendation.rank_intervals
    shown = versioned(names, recommendation.versions)
    rows = [
        (
            shown[who],
            _count(recommendation, who, count),
            *([f"{between[who][0]}–{between[who][1]}"] if between else []),
            unit.number(recommendation.compute_seconds[who]),
            unit.number(recommendation.waits[who]),
            percent(recommendation.waits[who] / window),
        )
        for who, count in recommendation.split.items()
    ]
    total = sum(recommendation.split.values())
    what = ranks_word(recommendation)
    extra = [f"{percent(recommendation.level, 0)} of {what}"] if between else []
    rows.append(("window time", str(total), *[""] * len(extra), unit.number(window), "", ""))
    header = ("participant", what, *extra, f"solve ({unit.symbol})", f"wait ({unit.symbol})", "wait share")
    return Table(
        "Predicted means per time window (solve with own mapping and overhead)",
        header,
        tuple(rows),
    )


def comparison_table(recommendation: Recommendation) -> Table:
    """Set the recommended split beside the equal, the DoF-proportional and the present one.

    Where drawn curves say how sure that is, with the probability that the recommended one is faster.
    """
    unit = seconds_unit([recommendation.window_seconds])
    others = recommendation.alternatives
    window = unit.number(recommendation.window_seconds)
    rows = [(label("recommended"), split_text(recommendation.split, recommendation.layouts), window, "", "")]
    rows += [
        (
            f"{label(kind, other)}{f', not {split_text(other.meant, recommendation.layouts)}' if other.meant else ''}",
            split_text(other.split, recommendation.layouts),
            unit.number(other.window_seconds),
            percent(other.gain),
            percent(other.probability, 0),
        )
        for kind, other in others.items()
    ]
    header = ("split", as_above(recommendation), f"window ({unit.symbol})", "gain over it", "faster with")
    columns = 4 if all(math.isnan(other.probability) for other in others.values()) else 5
    return Table("Compared with", header[:columns], tuple(row[:columns] for row in rows), (0, 1))


def measured_table(recommendation: Recommendation) -> Table:
    """Set every measured split beside its prediction, the shortest measured window first."""
    measured = recommendation.comparisons
    unit = seconds_unit([each.measured for each in measured])
    rows = tuple(
        (
            split_text(each.split, recommendation.layouts),
            str(len(each.runs)),
            unit.number(each.measured),
            unit.number(each.predicted),
            percent(each.predicted / each.measured - 1),
            percent(each.standard_error, 0),
        )
        for each in measured
    )
    header = (
        as_above(recommendation), "runs", f"measured ({unit.symbol})", f"predicted ({unit.symbol})", "off by",
        "noise",
    )  # fmt: skip
    return Table("Mean windows of measured splits, and what the curves predict", header, rows, (0,))


def split_text(split: Mapping[str, int], layouts: Mapping[str, Layouts] | None = None) -> str:
    """Write a split in the order of the participants: ``24 + 1 x 8 threads``."""
    known = layouts or {}
    return " + ".join(known[who].text(count) if who in known else str(count) for who, count in split.items())


def ranks_word(recommendation: Recommendation) -> str:
    """Name what numbers of a split are: ranks, or cores where a participant is split by them."""
    return "cores" if recommendation.layouts else "ranks"


def as_above(recommendation: Recommendation) -> str:
    """Head a column of splits."""
    return "split as above" if recommendation.layouts else "ranks as above"


def _count(recommendation: Recommendation, who: str, count: int) -> str:
    return split_text({who: count}, recommendation.layouts)


def evidence_table(recommendation: Recommendation, names: Mapping[str, str]) -> Table:
    """Tabulate every measurement with what the model says about it."""
    samples = recommendation.measurements.samples
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    aimed = {who: recommendation.modelled[who] for who in recommendation.split}
    rows = []
    for who in recommendation.split:
        measured = np.asarray(samples[who], dtype=float)
        models = recommendation.predicted_again(who)
        columns = {key: recommendation.measurements.parameters[who][key] for key in aimed[who]}
        for position in np.lexsort((measured[:, 0], *reversed(columns.values()))):
            ranks, seconds = measured[position]
            model = float(models[position])
            where = parameters_text({key: float(values[position]) for key, values in columns.items()})
            rows.append(
                (names[who], *([where] if any(aimed.values()) else []), _measured_count(recommendation, who, ranks),
                 unit.number(seconds), unit.number(model), percent(model / seconds - 1))
            )  # fmt: skip
    extra = ["case"] if any(aimed.values()) else []
    header = (
        "participant",
        *extra,
        ranks_word(recommendation),
        f"measured ({unit.symbol})",
        f"model ({unit.symbol})",
        "model off by",
    )
    return Table(
        "Measured compute time per window (median of each run), and the model",
        header,
        tuple(rows),
        (0, 1) if extra else (0,),
    )


def _measured_count(recommendation: Recommendation, who: str, count: float) -> str:
    layouts = recommendation.measurements.layouts.get(who)
    return f"{count:g}" if layouts is None else layouts.text(int(count))


def failed_tables(recommendation: Recommendation, names: Mapping[str, str]) -> list[Table]:
    """Tabulate splits whose runs failed, with the lines of their logs that say why; no table where none did."""
    rows = [
        (
            ranks_text(failed.ranks, names, recommendation.layouts)
            + (f" ({visible(versions_text(failed.versions))})" if failed.versions else "")
            + ("" if set(failed.ranks) == set(recommendation.split) else ", whatever the others have"),
            str(len(failed.runs)),
            " | ".join(visible(line) for line in failed.reasons) or "nothing in the logs",
        )
        for failed in recommendation.failed_splits
    ]
    title = "Failed, and so not recommended"
    return [Table(title, (ranks_word(recommendation), "runs", "why"), tuple(rows), (0, 2))] if rows else []


def facts(recommendation: Recommendation, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """List what the recommendation rests on, as (key, text) pairs."""
    if recommendation.parameters:
        yield "case", parameters_text(recommendation.parameters)
    yield "coupling", recommendation.schedule
    yield "budget", _budget(recommendation)
    yield "load imbalance", f"{percent(recommendation.imbalance)} between the participants"
    yield "learner", recommendation.learner
    shown = versioned(names, recommendation.versions)
    for who in recommendation.split:
        measured = recommendation.measurements.samples[who][:, 0]
        count, low, high = len(measured), measured.min(), measured.max()
        word = "core" if who in recommendation.layouts else "rank"
        where = f"at {low:g} to {high:g} {word}s" if low < high else f"at {plural(low, word, 'g')}"
        model = recommendation.models[who]
        for column in recommendation.modelled[who]:
            values = recommendation.measurements.parameters[who][column]
            where += f", {visible(column)} {values.min():g} to {values.max():g}"
        text = _formula(model)
        if "x1" in text:
            letters = (f"x{place} = {visible(name)}" for place, name in enumerate(recommendation.modelled[who], 1))
            text += f", {', '.join(letters)}"
        yield f"model of {shown[who]}", f"{text}; {plural(count, 'measurement')} {where}"


def _budget(recommendation: Recommendation) -> str:
    unit, total = recommendation.counted, recommendation.total_ranks
    used = recommendation.used.get(unit, sum(recommendation.split.values()))
    text = f"{used} of {total} {unit}"
    if recommendation.unit != "ranks":
        text += f" for {recommendation.used.get('ranks', sum(recommendation.split.values()))} ranks"
    preferred = recommendation.plan is not None and recommendation.plan.prefer not in ("time", 1)
    if used == total:
        return text
    if preferred:
        return f"{text}, as time against cost was weighed"
    return f"{text}; {total - used} more would not shorten the window"


def _formula(model: Any) -> str:
    formula = formula_of(model)
    if formula is None:
        return str(getattr(model, "learner_name", type(model).__name__))
    return f"{formula.text()} seconds"
