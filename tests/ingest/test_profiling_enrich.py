"""Recorded runs joined with profiling files: the right file, the right calls, and what is missing says why."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiling_helpers import DATA, later, summaries, with_header
from record_helpers import configuration
from store_helpers import write_store

from precice_lb.case import roles_of
from precice_lb.ingest.profiling import Profile, enrich, read_profile
from precice_lb.ingest.profiling.find import profiled_case
from precice_lb.store import RankFile, read_store

MORE_NS = 3000
FUNDAMENTAL = (DATA / "fundamental" / "precice-config.xml").read_text()


def record(
    directory: Path, profile: Profile, *, later_ns: int = 0, rows: slice = slice(None), waited_ns: int = -1, **more: Any
) -> RankFile:
    """Write and read the store that the recorder would have written beside a profiling file, on its own clock."""
    header, clock = profile.header, 10**15
    started = header.unix_us * 1000 + 50_000_000 + later_ns
    times = {"started_unix_ns": started, "started_clock_ns": clock, "working_directory": str(directory)}

    def around(call: np.void) -> tuple[int, int]:
        """Begin and length of the recorder's interval around preCICE's own."""
        return clock - 50_000_000 + 1000 * int(call["begin_us"]) - MORE_NS, 1000 * int(call["call_us"]) + 2 * MORE_NS

    calls = []
    for window, call in enumerate(profile.calls[rows], start=1):
        begin, length = around(call)
        calls.append((window, 1, begin, 1000 * int(call["solve_us"]), length, waited_ns, waited_ns, 0.0, True))
    path = write_store(
        directory / "precice-lb-store", calls, header.participant, header.rank, header.size, seconds=1.0,
        initialize=[(*around(call), -1, -1) for call in profile.initialize[:1]],
        **{"configuration": FUNDAMENTAL, "backend": "libprecice", **times, **more},
    )  # fmt: skip
    return read_store(path)


def joined(store: RankFile) -> RankFile:
    (result,) = enrich([store])
    return result


def sample(directory: Path, run: str = "fundamental", name: str = "A-0-1") -> Profile:
    folder = directory / "precice-profiling"
    folder.mkdir(parents=True, exist_ok=True)
    # Of another size: it does not disturb.
    (folder / f"{name[0]}-0-4.txt").write_text("not this one")
    return read_profile(Path(shutil.copy(DATA / run / f"{name}.txt", folder)))


@pytest.mark.parametrize("run", ["fundamental", "api-just-in-time", "all-implicit", "flush-every-1"])
@pytest.mark.parametrize("name", ["A-0-1", "B-0-1"])
def test_every_call_gets_its_own_times(tmp_path: Path, run: str, name: str) -> None:
    profile = sample(tmp_path, run, name)
    before = record(tmp_path, profile)
    store = joined(before)
    calls = profile.calls
    assert store.metadata["timing_source"] == f"precice-profiling {profile.header.mode}"
    assert "timing_problem" not in store.metadata
    np.testing.assert_array_equal(store.advances["wait_ns"], 1000 * calls["wait_us"])
    np.testing.assert_array_equal(store.advances["mapping_ns"], 1000 * (calls["mapping_us"] + calls["jit_us"]))
    np.testing.assert_array_equal(store.advances["solve_ns"], 1000 * (calls["solve_us"] - calls["jit_us"]))
    wall = before.advances["solve_ns"] + before.advances["advance_ns"]
    np.testing.assert_array_equal(store.advances["solve_ns"] + store.advances["advance_ns"], wall)
    assert store.initialize["wait_ns"][0] == 1000 * profile.initialize["wait_us"][0]
    assert store.initialize["mapping_ns"][0] == 1000 * profile.initialize["mapping_us"][0]
    assert (before.advances["wait_ns"] == -1).all()


def test_the_solvers_own_sections_are_summed_up_beside_those_of_advance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The solver's section ``assembly`` is in both files; the recorder's times are taken, and taken once."""
    for name in "AB":
        profile = sample(tmp_path, "all-implicit", f"{name}-0-1")
        assert "assembly" in profile.user_names
        # 3 ms in each window, of windows of one call each.
        windows = range(1, len(profile.calls) + 1)
        sections = [("assembly", window, 0, 3_000_000) for window in windows]
        record(tmp_path, profile, sections=sections)

    (run,) = summaries(capsys, "--per-rank", tmp_path / "precice-lb-store")

    for part in run["participants"].values():
        assert list(part["sections"]) == ["assembly"]
        assert part["sections"]["assembly"]["mean_seconds"] == pytest.approx(0.003)
        assert part["sections_per_rank"] == {"assembly": [pytest.approx(0.003)]}
        assert "waitAndSendData" in part["advance_by_event"]


def test_a_store_that_has_its_waits_or_was_joined_before_stays_as_it_is(tmp_path: Path) -> None:
    profile = sample(tmp_path)
    assert "timing_source" in joined(record(tmp_path, profile, backend="embedded")).metadata
    # The embedded backend of before told the recorder itself.
    earlier = record(tmp_path, profile, backend="embedded", waited_ns=5)
    before = record(tmp_path, profile, timing_source="precice-profiling all")
    assert enrich([earlier, before]) == [earlier, before]


def test_the_directory_setting_and_a_moved_case_are_followed(tmp_path: Path) -> None:
    profile = sample(tmp_path / "out")
    text = FUNDAMENTAL.replace("<log>", '<profiling directory="../out"/><log>')
    (tmp_path / "solver").mkdir()
    for more in ({"working_directory": "/nowhere/solver"}, {}):
        store = record(tmp_path / "solver", profile, configuration=text, **more)
        assert "timing_source" in joined(store).metadata


@pytest.mark.parametrize("seconds", [-3600.0, -5.0, -0.5, 5.0, 3600.0])
def test_a_file_of_the_same_size_from_another_run_is_refused(tmp_path: Path, seconds: float) -> None:
    store = joined(record(tmp_path, sample(tmp_path), later_ns=round(seconds * 1e9)))
    assert "timing_source" not in store.metadata
    expected = "A-0-1.txt: expected the profiling file of this run, found one of another run; give each run a directory"
    assert expected in store.metadata["timing_problem"]
    assert (store.advances["wait_ns"] == -1).all()


def test_calls_that_are_not_within_the_recorded_ones_are_of_another_run(tmp_path: Path) -> None:
    store = record(tmp_path, sample(tmp_path))
    for late_ns, is_joined in ((20_000, True), (200_000, False)):
        advances = store.advances.copy()
        advances["begin_ns"][1] += late_ns
        data = joined(store.having(advances=advances)).metadata
        assert ("timing_source" in data) == is_joined
        assert ("others" in data.get("timing_problem", "")) != is_joined


def test_what_was_not_measured_says_why_and_what_to_set(tmp_path: Path) -> None:
    profile = sample(tmp_path)
    off = FUNDAMENTAL.replace("<log>", '<profiling mode="off"/><log>')
    on, off = (record(tmp_path, profile, configuration=text) for text in (FUNDAMENTAL, off))
    path = profile.header.path
    head = path.read_text().splitlines(keepends=True)[0]
    path.unlink()
    assert 'mode="fundamental"' in joined(off).metadata["timing_problem"]
    for content, words in ((None, "keep preCICE's profiling files"), (head, "record more time windows"), ("", "empty")):
        if content is not None:
            path.write_text(content)
        store = joined(on)
        assert words in store.metadata["timing_problem"]
        assert str(path) in store.metadata["timing_problem"]
        assert (store.advances["wait_ns"] == -1).all()
        assert (store.initialize["wait_ns"] == -1).all()


@pytest.mark.parametrize("stores", ["runs/001/stores", "runs/001/case/store", "stores", "all/of/it"])
@pytest.mark.parametrize("again", [False, True])
def test_what_was_moved_finds_its_profiling_files(tmp_path: Path, stores: str, again: bool) -> None:
    """Stores name the directory in which the solver ran, wherever they are now."""
    campaign = tmp_path / "campaign"
    work = campaign / "runs" / "001" / "case" / "fluid"
    profile = sample(work)
    made = record(work, profile).path
    place = campaign / stores / made.parent.name
    place.mkdir(parents=True)
    made.rename(place / made.name)
    (tmp_path / "elsewhere").mkdir()
    campaign.rename(tmp_path / "elsewhere" / "renamed")
    if again:
        # Another run is where the first one was.
        with_header(sample(work).header.path, later(3600))
    (path,) = (tmp_path / "elsewhere").rglob("*.h5")
    store = joined(read_store(path))
    assert "timing_problem" not in store.metadata
    np.testing.assert_array_equal(store.advances["wait_ns"], 1000 * profile.calls["wait_us"])


def test_a_run_that_goes_on_does_not_take_the_files_of_one_beside_it(tmp_path: Path) -> None:
    """Nothing was moved: the solver's working directory is there, and preCICE has written nothing yet."""
    store = record(tmp_path / "fluid", sample(tmp_path))
    assert "found none; keep preCICE's profiling files" in joined(store).metadata["timing_problem"]


def test_a_killed_run_has_the_calls_that_reached_the_file(tmp_path: Path) -> None:
    profile = sample(tmp_path)
    content = profile.header.path.read_text()
    profile.header.path.write_text(content[: content.index("B", len(content) * 2 // 3) + 3])
    left = read_profile(profile.header.path).calls
    assert 0 < len(left) < len(profile.calls)
    store = joined(record(tmp_path, profile))
    np.testing.assert_array_equal(store.advances["wait_ns"][: len(left)], 1000 * left["wait_us"])
    assert (store.advances["wait_ns"][len(left) :] == -1).all()
    assert f"found {len(left)}; " in store.metadata["timing_problem"]
    # preCICE's own default is no remedy for what the default led to, and less than 13 would lose the first records.
    remedy = (
        'record more time windows, or set <profiling flush-every="13"/>, found "50" (1 to 12 lose the first records)'
    )
    assert remedy in store.metadata["timing_problem"]


@pytest.mark.parametrize("rows", [slice(0, 3), slice(2, None), slice(1, 4)])
def test_calls_lost_by_the_recorder_are_found_by_the_clock(tmp_path: Path, rows: slice) -> None:
    profile = sample(tmp_path, "all-implicit")
    store = joined(record(tmp_path, profile, rows=rows))
    np.testing.assert_array_equal(store.advances["wait_ns"], 1000 * profile.calls["wait_us"][rows])


def test_ranks_off_the_interface_receive_nothing(tmp_path: Path) -> None:
    text = (DATA / "all-parallel" / "precice-config.xml").read_text()
    for name, receives in (("A-0-2", True), ("A-1-2", False), ("B-0-2", True), ("B-1-2", False)):
        profile = sample(tmp_path, "all-parallel", name)
        assert joined(record(tmp_path, profile, configuration=text)).metadata["receives_data"] is receives


ON, OFF = 3, 0
NONE_TO_A, NONE_TO_B = ((f'to="{name}"/>', f'to="{name}" substeps="false"/>') for name in "AB")
FIRST = ('<time-window-size value="0.1"/>', '<time-window-size method="first-participant"/>')


@pytest.mark.parametrize(
    ("kind", "name", "vertices", "change", "receives"),
    [
        ("parallel-explicit", "A", ON, None, True),
        ("parallel-explicit", "A", OFF, None, False),
        ("parallel-explicit", "B", OFF, None, False),
        # Convergence is told to all ranks of the first participant; the times of substeps to all that receive data.
        ("parallel-implicit", "A", OFF, NONE_TO_A, True),
        ("parallel-implicit", "B", OFF, None, True),
        ("parallel-implicit", "B", OFF, NONE_TO_B, False),
        ("serial-explicit", "B", OFF, FIRST, True),
        ("serial-explicit", "A", OFF, FIRST, False),
        ("parallel-explicit", "A", OFF, ('from="B" to="A"/>', 'from="B" to="A" substeps="true"/>'), True),
        ("parallel-explicit", "A", ON, ('<exchange data="B-Data" mesh="B-Mesh" from="B" to="A"/>', ""), False),
        ("parallel-explicit", "A", None, None, None),
        ("parallel-explicit", "C", ON, None, None),
        ("broken", "A", ON, None, None),
    ],
)
def test_who_receives_data_follows_from_scheme_and_mesh_sizes(
    kind: str, name: str, vertices: int | None, change: tuple[str, str] | None, receives: bool | None
) -> None:
    text = "<broken" if kind == "broken" else configuration(kind)
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    sizes = {} if vertices is None else {f"{name}-Mesh": vertices}
    assert roles_of(text).receives_data(name, sizes) is receives


def test_waits_outside_preCICEs_own_events_are_counted() -> None:
    text = configuration("serial-explicit")
    for changed, name, waits in (
        (text, "B", ("wait_us",)),
        (text.replace(*FIRST), "B", ("wait_us", "steering_us")),
        (text.replace(*FIRST), "A", ("wait_us",)),
        (text.replace("<log ", '<profiling synchronize="true"/><log '), "A", ("wait_us", "send_us")),
    ):
        assert profiled_case(changed).waits(name) == waits


def test_a_header_that_names_another_rank_is_refused(tmp_path: Path) -> None:
    profile = sample(tmp_path)
    with_header(profile.header.path, lambda _: {"name": "B"})
    assert "another rank" in joined(record(tmp_path, profile)).metadata["timing_problem"]
