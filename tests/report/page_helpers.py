"""Reports with planted measurements for the tests of the page, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from report_helpers import falling, write_csv

from precice_lb.case import parse_configuration
from precice_lb.dataset import load_runs, measurements_from_runs
from precice_lb.recommend import load_sources, recommend_split
from precice_lb.report import Evidence
from precice_lb.schedule import Schedule

SPLITS = [{"Inner": 2, "Outer": 2}, {"Inner": 4, "Outer": 2}, {"Inner": 6, "Outer": 3}]


def table_evidence(directory: Path, names: Sequence[str], total: int = 24, **options: Any) -> Evidence:
    """A recommendation from a table alone."""
    samples = {name: falling(2.0 / (1 + index)) for index, name in enumerate(names)}
    path = write_csv(directory / "times.csv", samples)
    schedule = Schedule.parallel(list(names))
    recommendation = recommend_split(load_sources([path]), total, coupling=schedule, within=0.05, **options)
    return Evidence(recommendation, sources=(path,), command="precice-lb report times.csv")


def store_evidence(directory: Path, total: int, **options: Any) -> Evidence:
    """A recommendation from recorded runs."""
    runs = load_runs([directory])
    measurements = measurements_from_runs(runs)
    configuration = parse_configuration(runs[0].configuration)
    schedule = Schedule.from_config(configuration, measurements.iterations, measurements.overhead)
    recommendation = recommend_split(measurements, total, coupling=schedule, within=0.05, **options)
    return Evidence(recommendation, runs, (directory,), command=f"precice-lb report {directory}")


class Elements(HTMLParser):
    """All elements of a page with their attributes, and all text that a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
