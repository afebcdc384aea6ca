"""What is said of a recommendation, as sentences and tables: terminal and page are made of the same ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.models.published.formula import formula_of
from precice_lb.names import visible
from precice_lb.plural import plural
from precice_lb.recommend.result import versions_text
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table
from precice_lb.report.text import listed, percent, ranks_text, seconds_unit

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
# Rows of the table of budgets.
_ROWS = 9
# Warnings that a screen shows.
_WARNINGS = 3


def screen_blocks(
    recommendation: Recommendation, names: Mapping[str, str], *, advice: str = "", verbose: bool = False
) -> list[Block]:
    """Say what fits on a screen, the answer last, and what to do next; ``verbose`` puts all else before it."""
    texts = list(recommendation.warnings)
    if recommendation.failed_splits:
        texts.append(f"{plural(len(recommendation.failed_splits), 'split')} failed, and so not recommended")
    if len(texts) > _WARNINGS and not verbose:
        texts[_WARNINGS:] = [f"{len(texts) - _WARNINGS} more, with --verbose or in the report"]
    blocks = [*details(recommendation, names), Paragraph("")] if verbose else []
    blocks += [Paragraph(text, "missing", "warning") for text in texts]
    return [*blocks, *opening(recommendation, names), *([Paragraph(advice)] if advice else [])]


def opening(recommendation: Recommendation, names: Mapping[str, str]) -> list[Block]:
    """Say in two sentences what to do and how sure that is."""
    return [Paragraph(answer(recommendation, names), "lead"), Paragraph(gain(recommendation, names))]


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
    sources = ", ".join(recommendation.measurements.sources)
    pairs = (*facts(recommendation, names), *plan_facts(recommendation), ("measurements from", sources))
    yield DefinitionList(pairs if sources else pairs[:-1])


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


def recommended_text(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Write the recommended split as a sentence does, with its versions."""
    return ranks_text(recommendation.split, versioned(names, recommendation.versions), recommendation.layouts)


def answer(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Say in a sentence what to do and how sure its time is."""
    unit = seconds_unit([recommendation.window_seconds])
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


def gain(recommendation: Recommendation, names: Mapping[str, str]) -> str:
    """Say how much longer other splits would take, and on what that rests."""
    counts = listed(f"{len(rows)} of {names[who]}" for who, rows in recommendation.measurements.samples.items())
    basis = f"judged from measurements ({counts}) and the coupling {visible(recommendation.schedule)}"
    if not recommendation.alternatives:
        return f"This is {basis}."
    comparison = listed(_compared(kind, other) for kind, other in recommendation.alternatives.items())
    return f"{comparison[0].upper()}{comparison[1:]}, {basis}."


def _compared(kind: str, other: Alternative) -> str:
    length = f"{percent(abs(other.gain))} {'longer' if other.gain > 0.0 else 'less'}"
    text = f"the {label(kind, other)} would take {'as long' if abs(other.gain) < 5e-4 else length}"
    if kind != "present" or math.isnan(other.probability):
        return text
    return f"{text} (and longer at all with a probability of {percent(other.probability, 0)})"


def split_table(recommendation: Recommendation, names: Mapping[str, str]) -> Table:
    """Tabulate ranks with mean compute time and wait per window of each participant, and the window time below."""
    unit, window = seconds_unit([recommendation.window_seconds]), recommendation.window_seconds
    between, what = recommendation.rank_intervals, ranks_word(recommendation)
    head = f"{percent(recommendation.level, 0)} of {what}"
    solve, wait = f"solve ({unit.symbol})", f"wait ({unit.symbol})"
    shown = versioned(names, recommendation.versions)
    rows = [
        {
            "participant": shown[who],
            what: split_text({who: count}, recommendation.layouts),
            **({head: "{}–{}".format(*between[who])} if between else {}),
            solve: unit.number(recommendation.compute_seconds[who]),
            wait: unit.number(recommendation.waits[who]),
            "wait share": percent(recommendation.waits[who] / window),
        }
        for who, count in recommendation.split.items()
    ]
    total = {what: str(sum(recommendation.split.values())), solve: unit.number(window)}
    rows.append(dict.fromkeys(rows[0], "") | {"participant": "window time"} | total)
    return Table.of("Predicted means per time window (solve with own mapping and overhead)", rows)


def comparison_table(recommendation: Recommendation) -> Table:
    """Set the recommended split beside the equal, the DoF-proportional and the present one.

    Where drawn curves say how sure that is, with the probability that the recommended one is faster.
    """
    unit, layouts = seconds_unit([recommendation.window_seconds]), recommendation.layouts
    others = recommendation.alternatives
    known = not all(math.isnan(other.probability) for other in others.values())

    def row(name: str, split: Mapping[str, int], seconds: float, *shares: str) -> dict[str, str]:
        cells = {"split": name, as_above(recommendation): split_text(split, layouts)}
        cells |= {f"window ({unit.symbol})": unit.number(seconds), "gain over it": shares[0]}
        return cells | ({"faster with": shares[1]} if known else {})

    rows = [row(label("recommended"), recommendation.split, recommendation.window_seconds, "", "")]
    for kind, other in others.items():
        name = f"{label(kind, other)}{f', not {split_text(other.meant, layouts)}' if other.meant else ''}"
        rows.append(row(name, other.split, other.window_seconds, percent(other.gain), percent(other.probability, 0)))
    return Table.of("Compared with", rows, (0, 1))


def measured_tables(recommendation: Recommendation) -> list[Table]:
    """Set every measured split beside its prediction, the shortest measured window first."""
    unit = seconds_unit([each.measured for each in recommendation.comparisons])
    rows = [
        {
            as_above(recommendation): split_text(each.split, recommendation.layouts),
            "runs": str(len(each.runs)),
            f"measured ({unit.symbol})": unit.number(each.measured),
            f"predicted ({unit.symbol})": unit.number(each.predicted),
            "off by": percent(each.predicted / each.measured - 1),
            "noise": percent(each.standard_error, 0),
        }
        for each in recommendation.comparisons
    ]
    return [Table.of("Mean windows of measured splits, and what the curves predict", rows)] if rows else []


def evidence_table(recommendation: Recommendation, names: Mapping[str, str]) -> Table:
    """Tabulate every measurement with what the model says about it."""
    samples = recommendation.measurements.samples
    unit = seconds_unit(float(value) for rows in samples.values() for value in rows[:, 1])
    aimed = any(recommendation.modelled[who] for who in recommendation.split)
    rows = []
    for who in recommendation.split:
        measured = np.asarray(samples[who], dtype=float)
        layouts = recommendation.measurements.layouts.get(who)
        models = recommendation.predicted_again(who)
        columns = {key: recommendation.measurements.parameters[who][key] for key in recommendation.modelled[who]}
        for position in np.lexsort((measured[:, 0], *reversed(columns.values()))):
            ranks, seconds = measured[position]
            model = float(models[position])
            where = parameters_text({key: float(values[position]) for key, values in columns.items()})
            rows.append(
                {
                    "participant": names[who],
                    **({"case": where} if aimed else {}),
                    ranks_word(recommendation): f"{ranks:g}" if layouts is None else layouts.text(int(ranks)),
                    f"measured ({unit.symbol})": unit.number(seconds),
                    f"model ({unit.symbol})": unit.number(model),
                    "model off by": percent(model / seconds - 1),
                }
            )
    title = "Measured compute time per window (median of each run), and the model"
    return Table.of(title, rows, (0, 1) if aimed else (0,))


def failed_tables(recommendation: Recommendation, names: Mapping[str, str]) -> list[Table]:
    """Tabulate splits whose runs failed, with the lines of their logs that say why; no table where none did."""
    rows = [
        {
            ranks_word(recommendation): ranks_text(failed.ranks, names, recommendation.layouts)
            + (f" ({visible(versions_text(failed.versions))})" if failed.versions else "")
            + ("" if set(failed.ranks) == set(recommendation.split) else ", whatever the others have"),
            "runs": str(len(failed.runs)),
            "why": " | ".join(visible(line) for line in failed.reasons) or "nothing in the logs",
        }
        for failed in recommendation.failed_splits
    ]
    return [Table.of("Failed, and so not recommended", rows, (0, 2))] if rows else []


def near_tables(recommendation: Recommendation) -> list[Table]:
    """Tabulate the splits that are nearly as good, for people who round."""
    plan, used = recommendation.plan, recommendation.used
    if plan is None:
        return []
    unit = seconds_unit([recommendation.window_seconds])
    extra = [key for key in ("cores", "nodes") if key in used and (key == "nodes" or recommendation.unit != "ranks")]
    rows = tuple(
        (split_text(each.split, recommendation.layouts), *(str(each.used.get(key, "")) for key in extra),
         unit.number(each.window_seconds), percent(each.longer))
        for each in plan.near
    )  # fmt: skip
    title = f"Best splits within {percent(plan.within, 0)} of the recommended one"
    if plan.step > 1:
        title += f", in steps of {plan.step} {ranks_word(recommendation)}"
    header = (as_above(recommendation), *extra, f"window ({unit.symbol})", "longer")
    return [Table(title if rows else f"{title}: none other", header, rows)]


def tradeoff_tables(recommendation: Recommendation) -> list[Table]:
    """Tabulate window time and core-hours over budgets, with the knee and what is recommended."""
    plan = recommendation.plan
    if plan is None:
        return []
    points, marked = plan.tradeoff.points, {"knee": plan.tradeoff.knee, "recommended": plan.chosen}
    if plan.chosen not in points:
        points = tuple(sorted((*points, plan.chosen), key=lambda each: (each.cores, -each.window_seconds)))
    unit = seconds_unit([recommendation.window_seconds])
    at = np.linspace(0, len(points) - 1, min(_ROWS, len(points))).round().astype(int).tolist()
    rows = [
        {
            recommendation.counted: str(point.budget),
            as_above(recommendation): split_text(point.split, recommendation.layouts),
            f"window ({unit.symbol})": unit.number(point.window_seconds),
            "core-h/1000 windows": f"{1000 * point.core_hours:.4g}",
            "efficiency": percent(point.efficiency, 0),
            "": ", ".join(text for text, which in marked.items() if point == which),
        }
        for index, point in enumerate(points)
        if index in at or point in marked.values()
    ]
    return [Table.of("Time against cost", rows, (1, 5))]


def versions_tables(recommendation: Recommendation, names: Mapping[str, str]) -> list[Table]:
    """Set every combination of versions with its best split beside the recommended one; nothing where there is one."""
    if len(recommendation.choices) < 2:
        return []
    unit = seconds_unit([recommendation.window_seconds])
    several = len(recommendation.versions) > 1
    who = "versions" if several else names[next(iter(recommendation.versions))]
    takes = {"nodes": _nodes} if "nodes" in recommendation.used else {}
    if any(_gpus(each.found) for each in recommendation.choices if each.recommendation is not None):
        takes["gpus"] = _gpus
    rows = []
    for each in recommendation.choices:
        texts = {name: visible(version) or "unnamed" for name, version in each.versions.items()}
        text = ", ".join(f"{names[name]} {version}" if several else version for name, version in texts.items())
        found, best = each.recommendation, each.versions == recommendation.versions
        low, high = (math.nan, math.nan) if found is None else found.interval
        split = f"none: {visible(each.problem)}" if found is None else split_text(found.split, found.layouts)
        cells = {
            **{key: "" if found is None else take(found) for key, take in takes.items()},
            f"window ({unit.symbol})": "" if found is None else unit.number(found.window_seconds),
            f"{percent(recommendation.level, 0)} interval": f"{unit.number(low)}–{unit.number(high)}",
            "longer": percent(each.gain),
            "slower with": percent(each.probability, 0),
        }
        empty = {*cells} if found is None else {"longer", "slower with"} if best else set()
        cells |= dict.fromkeys(empty, "")
        rows.append({who: text, ranks_word(recommendation): split, **cells})
    return [Table.of("Versions, each with its own best split, the recommended one first", rows, (0, 1))]


def _gpus(found: Recommendation) -> str:
    """Count the GPUs that ranks use; nodes of their own may have more."""
    machine, total = found.limits.constraints, 0
    for who, count in found.split.items():
        ranks = found.layouts[who].of(count).ranks if who in found.layouts else count
        total += ranks * int(machine.of("gpus_per_rank", who) or 0)
    return str(total or "")


def _nodes(found: Recommendation) -> str:
    """Say how many nodes, of which kinds where there are several."""
    kinds = [
        f"{count} {key.removesuffix(' nodes')}" for key, count in found.used.items() if key.endswith(" nodes") and count
    ]
    return " + ".join(kinds) or str(found.used.get("nodes", ""))


def other_versions(recommendation: Recommendation) -> Iterator[tuple[str, str, Recommendation]]:
    """Give each version of a participant that is not recommended, with the best recommendation that has it."""
    seen = set(recommendation.versions.items())
    for each in recommendation.choices:
        for who, version in each.versions.items() if each.recommendation is not None else ():
            if (who, version) not in seen:
                seen.add((who, version))
                yield who, version, each.found


def facts(recommendation: Recommendation, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """List what the recommendation rests on, as (key, text) pairs."""
    yield "coupling", recommendation.schedule
    yield "budget", _budget(recommendation)
    yield "learner", recommendation.learner
    shown = versioned(names, recommendation.versions)
    for who in recommendation.split:
        measured = recommendation.measurements.samples[who][:, 0]
        count, low, high = len(measured), measured.min(), measured.max()
        word = "core" if who in recommendation.layouts else "rank"
        where = f"at {low:g} to {high:g} {word}s" if low < high else f"at {plural(low, word, 'g')}"
        for column in recommendation.modelled[who]:
            values = recommendation.measurements.parameters[who][column]
            where += f", {visible(column)} {values.min():g} to {values.max():g}"
        text = _formula(recommendation.models[who])
        if "x1" in text:
            letters = (f"x{place} = {visible(name)}" for place, name in enumerate(recommendation.modelled[who], 1))
            text += f", {', '.join(letters)}"
        yield f"model of {shown[who]}", f"{text}; {plural(count, 'measurement')} {where}"


def _budget(recommendation: Recommendation) -> str:
    unit, total, ranks = recommendation.counted, recommendation.total_ranks, sum(recommendation.split.values())
    used = recommendation.used.get(unit, ranks)
    text = f"{used} of {total} {unit}"
    if recommendation.unit != "ranks":
        text += f" for {recommendation.used.get('ranks', ranks)} ranks"
    if used == total:
        return text
    if recommendation.plan is not None and recommendation.plan.prefer not in ("time", 1):
        return f"{text}, as time against cost was weighed"
    return f"{text}; {total - used} more would not shorten the window"


def _formula(model: Any) -> str:
    formula = formula_of(model)
    return str(getattr(model, "learner_name", type(model).__name__)) if formula is None else f"{formula.text()} seconds"


def plan_facts(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    """List what sets the window time, how sure the optimum is, and where more cores begin to pay less."""
    if recommendation.critical:
        yield "critical", recommendation.critical
    if recommendation.proof and not math.isnan(recommendation.gap):
        text = f"at most {percent(recommendation.gap)} above the least possible mean window time"
        if recommendation.gap < 5e-4:
            text = "no split has a shorter mean window time"
        yield "optimum", f"{text} ({recommendation.proof})"
    if recommendation.plan is not None:
        curve, unit = recommendation.plan.tradeoff, recommendation.counted
        text = f"beyond {curve.knee.budget} {unit} more of them begin to pay less"
        if curve.knee == curve.points[-1]:
            text = f"none up to {curve.knee.budget} {unit}"
        yield "knee", text
