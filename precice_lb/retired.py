"""What is no longer there: commands and options are refused, keys of files are named and ignored, in one line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from precice_lb.exceptions import DataError
from precice_lb.text import say

# Commands, and options behind their command: what to use instead.
_RETIRED = {
    "merge": "precice-lb export --merged copies the ranks of each participant into one file",
    "fit": "benchmarks/regret.py compares learners by what decisions cost",
    "scripts": "precice-lb launch --study STUDY --write DIR writes the same",
    "guess check": "precice-lb guess patch CONFIG -o OUT refuses what stands in the way, and prints what it adds",
    "chain check": "docs/how-to/restart.md says what schemes forget at a border",
    "guess try": "set PRECICE_LB_GUESS=auto, which judges itself",
    "chain --lost": "Slurm tells of lost jobs by itself",
    "launch --program": "say --set launcher.program=…",
    "launch --arguments": "say --set launcher.arguments=[…]",
    "launch --oversubscribe": "say --set launcher.oversubscribe=true",
    "launch --setup": "say --set launcher.setup=[…]",
    "launch --nodes": "say --set participants.NAME.ranks_per_node=…",
}
# Keys of a study that would change what it means, with what to use instead.
REFUSED_KEYS = {
    "machine.gpus": "say machine.nodes, cores_per_node and gpus_per_node, or machine.kinds",
    "machine.threads": "say participants.NAME.threads; splits then count its cores",
    **dict.fromkeys(
        ("launcher.script", "launcher.submit", "launcher.cancel"),
        "submit the campaign itself as one job, whose launcher starts each run inside: docs/how-to/cluster.md",
    ),
    "machine.allow": "say participants.NAME.ranks = […]",
    "machine.fixed": "say participants.NAME.ranks",
    "participants.grid": "say participants.NAME.ranks = […]",
    "chain.minutes": "say chain.windows, the time windows of a segment",
    "runs.level": "recommend_split(…, level=0.9) of Python has intervals of another level",
}
# Arguments of Python, with those of now.
RETIRED_WORDS = {
    "measurements": "say data", "total_ranks": "say budget", "random_state": "say seed",
    "parameters": "say parameter", "schedule": "say coupling", "constraints": "say machine",
    "minimum_ranks": "say minimum", "maximum_ranks": "say maximum",
    "learner_parameters": "say learner={'name': …, …}",
}  # fmt: skip
STUDY_KEYS: tuple[str, ...] = (
    "runs.design", "runs.beside", "runs.minutes", "runs.on_failure", "runs.meshes", "meshes", "emulation",
    "recommend.inside", "recommend.learner_parameters", "launcher.allocation", "launcher.job_number",
    "launcher.submit_retry_seconds",
)  # fmt: skip
CAMPAIGN_KEYS: tuple[str, ...] = (
    "runs.energy",
    "asked.recommend.level",
    "asked.recommend.learner_parameters",
    *(f"settings.{key}" for key in REFUSED_KEYS),
    *(f"asked.{key}" for key in (*REFUSED_KEYS, "runs.minutes", "runs.on_failure", "runs.meshes", "meshes")),
    "study.meshes",
)  # fmt: skip


def refuse_retired(tokens: Sequence[str]) -> None:
    """Refuse a retired command or option before ``--``, with what to use instead."""
    words = list(tokens[: tokens.index("--")] if "--" in tokens else tokens)
    options = (word.partition("=")[0] for word in words if word.startswith("--"))
    for typed in (*words[:1], " ".join(words[:2]), *(f"{words[0]} {option}" for option in options)):
        if typed in _RETIRED:
            raise DataError(f"{typed}: retired; {_RETIRED[typed]}")


def drop_retired(values: dict[str, Any], keys: Sequence[str], path: Path) -> None:
    """Take retired keys out of what a file says, and name those that said something.

    Parameters
    ----------
    values
        What the file says; changed in place.
    keys
        The keys, dotted and through lists; ``key=value`` is a retired value of a key that stays.
    path
        The file, for the message on standard error.
    """
    if names := [key for key in keys if _drop(values, key.split("."))]:
        say(f"precice-lb: {path}: {', '.join(names)}: retired, and so ignored", sys.stderr)


def pass_over_runs(values: dict[str, Any], path: Path) -> None:
    """Take runs of a campaign that say nothing of its case any more for interrupted ones.

    These are runs with participants in turns, and those on smaller meshes that did not end well.

    Parameters
    ----------
    values
        What the campaign's file says; changed in place.
    path
        Of that file.
    """
    runs = values.get("runs")
    records = [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    meshes = [run for run in records if run.get("mesh") is not None and run.get("outcome") != "finished"]
    if passed := [run for run in records if run.get("in_turns") or run in meshes]:
        for run in passed:
            run["outcome"] = "interrupted"
        names = ", ".join(str(run.get("name")) for run in passed)
        say(
            f"precice-lb: {path}: runs in turns or on smaller meshes ({names}): retired, and so passed over", sys.stderr
        )


def _drop(value: Any, key: list[str]) -> bool:
    if isinstance(value, list):
        return sum(_drop(item, key) for item in value) > 0
    name, _, retired = key[0].partition("=")
    if not isinstance(value, dict) or name not in value or (retired and value[name] != retired):
        return False
    return _drop(value[name], key[1:]) if key[1:] else bool(value.pop(name))
