"""Names in stores: up to 128 bytes as they are, longer ones so that any two stay apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from store_helpers import row, write_store

from precice_lb.store import read_store


def names_read_back(directory: Path, names: list[str], *, spool: bool = False) -> list[str]:
    """Write profiling sections of these names, and read what the store has of them."""
    sections = [(name, 1, 100, 5) for name in names]
    path = write_store(directory, [row(1, 0.1, 0.1, 0.0)], sections=sections, spool=spool)
    return list(read_store(path).names("sections"))


@pytest.mark.parametrize("spool", [False, True], ids=["hdf5", "spool"])
def test_a_name_of_128_bytes_stays_whole(spool: bool, tmp_path: Path) -> None:
    # Each of the letters takes two bytes.
    names = ["n" * 128, "ü" * 64]

    assert names_read_back(tmp_path, names, spool=spool) == names


@pytest.mark.parametrize("spool", [False, True], ids=["hdf5", "spool"])
def test_of_a_longer_name_there_is_the_beginning_and_that_of_its_hash(spool: bool, tmp_path: Path) -> None:
    name = "n" * 129
    # 111 bytes, one for ~, and 16 of the hash.
    expected = "n" * 111 + "~" + hashlib.sha256(name.encode()).hexdigest()[:16]

    assert names_read_back(tmp_path, [name], spool=spool) == [expected]


def test_long_names_that_begin_alike_stay_apart(tmp_path: Path) -> None:
    names = ["n" * 200 + end for end in ("a", "b", "aa")]

    read_back = names_read_back(tmp_path, names)

    assert len(set(read_back)) == 3
    assert {len(name) for name in read_back} == {128}


def test_no_letter_of_a_longer_name_is_cut_in_two(tmp_path: Path) -> None:
    name = "ü" * 65

    (read_back,) = names_read_back(tmp_path, [name])

    # 111 bytes are 55 letters and a half.
    assert read_back.partition("~")[0] == "ü" * 55
