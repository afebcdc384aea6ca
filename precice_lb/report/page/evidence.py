"""Everything that a report is made of, and what is known of where it comes from."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.calibrate.design import TARGET_REGRET
from precice_lb.check import CheckResult, check_runs
from precice_lb.dataset.measurements import is_of
from precice_lb.names import visible
from precice_lb.report.page.decision import Prospects, next_runs
from precice_lb.report.summary import RunSummary, summarise
from precice_lb.report.text import short_names

if TYPE_CHECKING:
    from precice_lb.chain.document import ChainDocument
    from precice_lb.dataset import CoupledRun
    from precice_lb.recommend import Recommendation

_NAME_WIDTH = 40
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib", "h5py")
# Hosts, runs and files beyond these are counted, not named.
_NAMED = 6


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
    # Of a chain of jobs: what it did.
    chain: ChainDocument | None = None
    # When the report was made.
    written: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    @cached_property
    def names(self) -> dict[str, str]:
        """How to write each participant's name in tables: in one line, long ones without their middle."""
        return short_names(self.recommendation.split, _NAME_WIDTH)

    @cached_property
    def labels(self) -> dict[str, str]:
        """How to write it in figures, where there is less room."""
        return short_names(self.recommendation.split, 16)

    @cached_property
    def shown_run(self) -> CoupledRun | None:
        """The recorded run whose split is nearest to the recommended one, of repeats that with the median window.

        Of an even number the faster one of the middle; runs without windows after warm-up only where there are no
        others; of the recommended versions in any case.
        """
        split = self.recommendation.split

        def distance(run: CoupledRun) -> float:
            ratios = [run.participants[who].cores / count for who, count in split.items()]
            return sum(abs(max(ratio, 1 / ratio) - 1) for ratio in ratios)

        whole = [run for run in self._runs_of_versions if set(run.participants) >= set(split)]
        judged = [run for run in whole if math.isfinite(_window(run))] or whole
        if not judged:
            return None
        nearest = min(map(distance, judged))
        repeats = sorted((run for run in judged if distance(run) == nearest), key=_window)
        return repeats[(len(repeats) - 1) // 2]

    @cached_property
    def repeats(self) -> int:
        """How many recorded runs have the split of the one that is shown."""
        if self.shown_run is None:
            return 0
        return sum(_split(run) == _split(self.shown_run) for run in self._runs_of_versions)

    @property
    def _runs_of_versions(self) -> list[CoupledRun]:
        """Recorded runs of the recommended versions."""
        return [run for run in self.runs if is_of(run.versions, self.recommendation.versions)]

    @cached_property
    def shown_summary(self) -> RunSummary | None:
        """What that run spent its time on."""
        return None if self.shown_run is None else summarise([self.shown_run])[0]

    @cached_property
    def prospects(self) -> Prospects:
        """What further runs are worth."""
        return next_runs(self.recommendation, self.target_regret)

    @cached_property
    def checked(self) -> CheckResult | None:
        """Whether the recorded runs are fit to learn from."""
        return check_runs(self.runs) if self.runs else None


def provenance(evidence: Evidence) -> list[tuple[str, str]]:
    """Say with what, from what and how the report was made, as (key, text) pairs."""
    metadata = [part.metadata for run in evidence.runs for part in run.participants.values()]
    pairs = [
        ("made", f"{evidence.written:%Y-%m-%d %H:%M} UTC"),
        ("command", evidence.command or "from Python"),
        ("seed", f"{evidence.seed} (the same seed gives the same numbers)"),
        ("versions", ", ".join(_versions())),
        ("report made on", f"{platform.node() or 'unknown host'}, {platform.platform()}"),
    ]
    if metadata:
        backends = (f"{each['backend']} {each.get('precice_version', '')}".strip() for each in metadata)
        recorders = (f"precice_lb {v}" for each in metadata if (v := each.get("precice_lb_version")))
        pythons = (f"Python {v}" for each in metadata if (v := each.get("python_version")))
        hosts = (
            f"{each['hostname']}{' (' + each['cpu_model'] + ')' if each.get('cpu_model') else ''}"
            for each in metadata
            if each.get("hostname")
        )
        pairs += [
            ("runs recorded on", _some(hosts, "hosts") or "unknown hosts"),
            ("runs recorded with", _some([*backends, *recorders, *pythons], "versions")),
            ("runs", _some((_run_text(run) for run in evidence.runs), "runs")),
            ("coupled case", _some((run.case for run in evidence.runs), "cases")),
            ("configuration", _some((str(each.get("configuration_path", "")) for each in metadata), "files")),
        ]
    pairs.append(("sources", _some((_source_text(path) for path in evidence.sources), "sources") or "arrays in memory"))
    shortened = [who for who, name in evidence.names.items() if name != who]
    pairs += [(f"full name of {evidence.names[who]}", who) for who in shortened]
    return [(key, visible(text)) for key, text in pairs if text]


def _split(run: CoupledRun) -> dict[str, int]:
    return {who: part.cores for who, part in run.participants.items()}


def split_of(run: CoupledRun, names: Iterable[str]) -> str:
    """Write what participants of a run ran on: ``24 + 8 ranks``, or ``24 + 1 x 8 threads``."""
    layouts = [run.participants[who].layout for who in names]
    threaded = any(each.threads > 1 for each in layouts)
    return " + ".join(map(str, layouts)) + ("" if threaded else " ranks")


def _window(run: CoupledRun) -> float:
    """Mean seconds of the windows after warm-up, of the participant with the longest; NaN where unknown."""
    means = [run.time.of(who) * part.window_seconds[run.steady(who)] for who, part in run.participants.items()]
    return max((float(np.nanmean(each)) if np.isfinite(each).any() else math.nan for each in means), default=math.nan)


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
    if not path.is_file():
        return str(path)
    return f"{path} (SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()})"


def _some(texts: Iterable[str], what: str) -> str:
    different = list(dict.fromkeys(text for text in texts if text))
    more = f" and {len(different) - _NAMED} more {what}" if len(different) > _NAMED else ""
    return "; ".join(different[:_NAMED]) + more
