"""The report in headless Chromium: no errors, nothing beyond the page's width, and figures whose labels can be read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_helpers import SPLITS, store_evidence, table_evidence
from report_helpers import HOSTILE, write_campaign

from precice_lb.report import build_page, write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright, of the extra dev, is not installed")
pytestmark = pytest.mark.browser

# Width and height in pixels; print is A4 without its margins.
SCREENS = {"phone": (360, 740), "laptop": (1280, 800), "print": (688, 1000)}
# What every figure must have: an axis with a unit in brackets, and a legend or a colour bar.
MEASURE = """
() => {
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return {text: element.textContent, left: box.left, right: box.right, top: box.top, bottom: box.bottom};
  };
  const figures = [...document.querySelectorAll('figure[id^="chart-"]')].map((figure) => {
    const svg = figure.querySelector('svg');
    const font = parseFloat(getComputedStyle(svg.querySelector('text')).fontSize);
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return {
      name: figure.id,
      frame: shown(svg),
      caption: figure.querySelector('figcaption').textContent,
      texts: [...svg.querySelectorAll('text')].map(shown),
      legends: svg.querySelectorAll('[id*="legend"]').length,
      images: svg.querySelectorAll('image, [id*="QuadMesh"]').length,
      letters: font * scale,
    };
  });
  const wide = [...document.querySelectorAll('body *')].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > document.documentElement.clientWidth + 1
      && !element.closest('.scroll, pre, svg');
  }).map((element) => element.tagName + ': ' + element.textContent.slice(0, 60));
  return {
    figures, wide,
    scrolls: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    scripts: document.scripts.length,
    background: getComputedStyle(document.body).backgroundColor,
    filter: getComputedStyle(document.querySelector('figure svg')).filter,
  };
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: install the system's package of that name")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of recorded runs, of a table of three participants, and of names that are not harmless."""
    place = tmp_path_factory.mktemp("reports")
    write_campaign(place / "runs", SPLITS, windows=8, degrees_of_freedom={"Inner": 200, "Outer": 100})
    hostile = [HOSTILE[0], HOSTILE[3], HOSTILE[4], "漢字かな交じり文の長い名前", '"><img src=x onerror=alert(1)>']
    made = {
        "runs": store_evidence(place / "runs", 12, present={"Inner": 6, "Outer": 6}),
        "table": table_evidence(place, ["Fluid", "Solid", "Heat"], 24),
        "hostile": table_evidence(place, hostile, 40),
    }
    return {name: write_report(build_page(each), place / name)[0] for name, each in made.items()}


def opened(browser: Any, path: Path, screen: str, *, dark: bool = False) -> tuple[Any, list[str]]:
    """A page, and what went wrong with it."""
    width, height = SCREENS[screen]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
    )
    # However busy the machine is.
    context.set_default_timeout(240_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: None if request.url.startswith("data:") else problems.append(request.url))
    if screen == "print":
        page.emulate_media(media="print")
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    problems.remove(path.as_uri())
    return page, problems


def overlapping(texts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of labels that cover each other by more than a hair."""
    hair = 0.75
    return [
        (one["text"], other["text"])
        for at, one in enumerate(texts)
        for other in texts[at + 1 :]
        if min(one["right"], other["right"]) - max(one["left"], other["left"]) > hair
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 2 * hair
    ]


# A curve over the split is drawn for two participants.
FIGURES = {
    "runs": ["chart-comparison", "chart-scaling", "chart-landscape"],
    "table": ["chart-comparison", "chart-scaling"],
    "hostile": ["chart-comparison", "chart-scaling"],
}


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", FIGURES)
def test_figures_can_be_read_and_nothing_is_wider_than_the_page(
    name: str, screen: str, browser: Any, reports: dict[str, Path]
) -> None:
    page, problems = opened(browser, reports[name], screen)
    found = page.evaluate(MEASURE)
    page.context.close()
    assert problems == []
    assert found["scripts"] == 0
    assert found["wide"] == []
    assert found["scrolls"] <= 0
    assert [figure["name"] for figure in found["figures"]] == FIGURES[name]
    for figure in found["figures"]:
        words = [text["text"] for text in figure["texts"]]
        assert sum("(" in text and ")" in text for text in words) >= 1, figure["name"]
        assert figure["legends"] or figure["images"], figure["name"]
        assert len(figure["caption"]) > 30
        assert figure["letters"] > 7, figure["name"]
        assert overlapping(figure["texts"]) == [], figure["name"]
        frame = figure["frame"]
        for text in figure["texts"]:
            assert text["left"] >= frame["left"] - 1, (figure["name"], text)
            assert text["right"] <= frame["right"] + 1, (figure["name"], text)
            assert text["bottom"] <= frame["bottom"] + 1, (figure["name"], text)


def test_the_dark_page_is_dark_and_so_are_its_figures(browser: Any, reports: dict[str, Path]) -> None:
    looks = []
    for dark in (False, True):
        page, _ = opened(browser, reports["runs"], "laptop", dark=dark)
        look = page.evaluate(MEASURE)
        looks.append((look["background"], look["filter"]))
        page.context.close()
    assert looks == [("rgb(255, 255, 255)", "none"), ("rgb(15, 21, 27)", "invert(1) hue-rotate(180deg)")]
