"""Databases of precice-profiling as a source: the same stores as from the files that they were merged from."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import DATA, case, database, imported, summed_up
from report_helpers import refused

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import import_profiling, read_profile
from precice_lb.ingest.profiling.tables import read_database

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from profiling_peer import differences, totals_of

MERGED = sorted(path.name.removesuffix(".db.gz") for path in (DATA / "databases").glob("*.db.gz"))


@pytest.mark.parametrize("run", MERGED)
def test_a_database_gives_what_its_files_give(tmp_path: Path, run: str) -> None:
    import_profiling([case(tmp_path / "run", run)], tmp_path / "from-files")
    result = import_profiling([database(tmp_path / "merged", run)], tmp_path / "from-database")
    assert result.notes == []
    expected, merged = imported(tmp_path / "from-files"), imported(tmp_path / "from-database")
    assert sorted(merged) == sorted(expected)
    for key, store in merged.items():
        other = expected[key]
        assert store.metadata["finished"] is True
        assert store.metadata["case"] == other.metadata["case"]
        assert store.metadata.get("receives_data") == other.metadata.get("receives_data")
        assert store.metadata["timing_source"] == "precice-profiling merged"
        for table in ("advances", "initialize"):
            rows, others = getattr(store, table), getattr(other, table)
            for column in set(rows.dtype.names) - {"begin_ns", "computed_dt"}:
                np.testing.assert_array_equal(rows[column], others[column], err_msg=f"{key} {column}")
            # The tool aligns clocks, so that only distances are the same.
            np.testing.assert_array_equal(np.diff(rows["begin_ns"]), np.diff(others["begin_ns"]))


@pytest.mark.parametrize("rows", [1, 7, 1 << 16])
def test_totals_are_those_of_the_files_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    from precice_lb.ingest.profiling import tables as module
    from precice_lb.ingest.profiling.calls import Profile

    monkeypatch.setattr(module, "_ROWS", rows)
    for header in read_database(database(tmp_path / "merged", "all-parallel")):
        profile = Profile(header).read()
        count = len(profile.calls)
        assert len(profile.read().calls) == count
        other = read_profile(DATA / "all-parallel" / f"{header.participant}-{header.rank}-{header.size}.txt")
        assert profile.totals == other.totals
        assert profile.mesh_sizes == other.mesh_sizes
        assert profile.finalized
        for column in ("call_us", "solve_us", "wait_us", "mapping_us", "exchanges"):
            np.testing.assert_array_equal(profile.calls[column], other.calls[column])


def test_what_a_kill_left_open_is_left_out(tmp_path: Path) -> None:
    path = database(tmp_path / "merged", "fundamental")
    with closing(sqlite3.connect(path)) as connection:
        # As the tool writes it: the duration is the time since 1970.
        connection.execute(
            "UPDATE events SET dur = ts WHERE pid = 1 AND (eid = (SELECT eid FROM names WHERE name = '_GLOBAL') OR ts "
            "= (SELECT MAX(ts) FROM events e JOIN names n ON e.eid = n.eid WHERE n.name = 'advance' AND pid = 1))"
        )
        connection.execute("DELETE FROM events WHERE pid = 1 AND eid = (SELECT eid FROM names WHERE name = 'finalize')")
        connection.commit()
    import_profiling([path], tmp_path / "store")
    stores = imported(tmp_path / "store")
    cut, whole = (stores[f"{name}-0"] for name in "AB")
    assert len(cut.advances) == len(whole.advances) - 1
    assert (cut.metadata["finished"], whole.metadata["finished"]) == (False, True)


def test_truncated_and_foreign_databases_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = database(tmp_path / "merged", "fundamental")
    content = whole.read_bytes()
    for size in (20, 100, 4096, 20_000, len(content) - 5000):
        path = whole.with_name(f"cut-{size}.db")
        path.write_bytes(content[:size])
        assert path.name in refused(capsys, "import", path, "--output", tmp_path / "store")
        assert not list((tmp_path / "store").rglob("*.h5"))
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE participants(pid INTEGER)")
        connection.commit()
    with pytest.raises(DataError, match=r"foreign\.db: expected a database .* cannot be read"):
        read_database(foreign)
    with closing(sqlite3.connect(whole)) as connection:
        connection.execute("UPDATE participants SET size = 'many'")
        connection.commit()
    with pytest.raises(DataError, match="whole numbers"):
        read_database(whole)


@pytest.mark.parametrize("sample", MERGED)
def test_figures_of_a_summary_are_those_of_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sample: str
) -> None:
    merged, source = database(tmp_path / "merged", sample), case(tmp_path / "run", sample)
    configuration, totals = (source / "precice-config.xml").read_text(), totals_of(merged)
    assert totals
    for place in (merged, source):
        run = summed_up(capsys, place, "--per-rank", "--warmup", 0)
        assert differences(run, totals, merged, configuration) == []
    # A microsecond more is seen.
    name, rank = next(iter(totals))
    more = {**totals, (name, rank): {**totals[name, rank], "solver.advance": totals[name, rank]["solver.advance"] + 1}}
    assert len(differences(run, more, merged, configuration)) == 1
