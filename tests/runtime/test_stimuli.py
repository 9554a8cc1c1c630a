"""Inputs of a comparison: if these fail, another signal goes into the graph than the user named, with no word of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nirmap
from nirmap.stimuli import DEFAULT_STEPS, as_sources, read_columns, stimulus


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_random_numbers_are_those_that_the_documentation_says() -> None:
    expected = np.random.default_rng((7, 2)).uniform(0, 5, (20, 1, 3, 4))
    found = stimulus("random:5", (3, 4), steps=20, seed=7, place=2)
    np.testing.assert_array_equal(found, expected)
    assert stimulus("random", (3,)).shape == (DEFAULT_STEPS, 1, 3)
    assert 0.9 < stimulus("random", (3,)).max() < 1
    assert -5 < stimulus("random:-5", (3,)).min() < -4.5
    assert stimulus("random:-5", (3,)).max() <= 0
    assert (stimulus("random", (3,), place=1) != stimulus("random", (3,))).any()


def test_a_constant_is_the_same_in_every_step() -> None:
    np.testing.assert_array_equal(stimulus("constant:-0.25", (2, 3), steps=4), np.full((4, 2, 3), -0.25))
    assert len(stimulus("constant:1e-3", ())) == DEFAULT_STEPS


@pytest.mark.parametrize("source", ["random:x", "constant:", "constant:nan", "random:inf"])
def test_a_value_that_is_no_number_is_refused(source: str) -> None:
    with pytest.raises(nirmap.NirmapError, match="behind the colon; expected a finite number"):
        stimulus(source, (1,))


@pytest.mark.parametrize("source", ["absent.csv", "constant", "randm", "."])
def test_what_is_no_source_is_refused(source: str) -> None:
    with pytest.raises(
        nirmap.NirmapError, match=r"expected a .csv or .npy file, random, random:HIGH or constant"
    ):
        stimulus(source, (1,))


@given(
    table=st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=width, max_size=width),
            min_size=1,
            max_size=6,
        )
    ),
    delimiter=st.sampled_from([",", ";", "\t", ", "]),
    ending=st.sampled_from(["\n", "\r\n"]),
    header=st.sampled_from(["", "names", "# "]),
    data=st.data(),
)
def test_a_written_table_is_read_by_position_and_by_name(
    table: list[list[float]],
    delimiter: str,
    ending: str,
    header: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    width = len(table[0])
    names = [f"column {letter}" for letter in "abcd"[:width]]
    lines = [delimiter.join(map(repr, row)) for row in table]
    if header:
        lines = [header.removeprefix("names") + delimiter.join(names), "", *lines]
    path = written(tmp_path_factory.mktemp("csv") / "t.csv", ending.join(lines) + ending)
    chosen = data.draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=4))
    expected = np.array(table)[:, chosen]
    np.testing.assert_array_equal(read_columns(path, [str(place + 1) for place in chosen]), expected)
    if header:
        np.testing.assert_array_equal(read_columns(path, [names[place] for place in chosen]), expected)


def test_a_name_comes_before_a_position(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "2,1\n10,20\n")
    np.testing.assert_array_equal(
        read_columns(path, ["2"]), [[1], [20]]
    )  # a first line of numbers is no header
    path = written(tmp_path / "t.csv", "2,v\n10,20\n")
    np.testing.assert_array_equal(read_columns(path, ["2"]), [[10]])


def test_the_column_is_left_out_only_where_there_is_no_choice(tmp_path: Path) -> None:
    assert read_columns(written(tmp_path / "one.csv", "3\n4\n")).tolist() == [[3], [4]]
    named = written(tmp_path / "named.csv", "t,input,v\n0,5,6\n")
    assert read_columns(named).tolist() == [[5]]
    with pytest.raises(
        nirmap.NirmapError, match="2 columns, and none chosen; expected a position from 1 to 2"
    ):
        read_columns(written(tmp_path / "two.csv", "3,1\n4,1\n"))


@pytest.mark.parametrize(
    ("text", "column", "found"),
    [
        ("a,b\n1,2\n", "c", r"no column 'c'; expected 'a', 'b', or a position from 1 to 2"),
        ("1,2\n", "0", r"no column '0'; expected a position from 1 to 2"),
        ("1,2\n", "3", r"no column '3'"),
        ("1,2\n", "-1", r"no column '-1'"),
        ("a,a\n1,2\n", "a", r"2 columns named 'a'"),
        ("1,2\n\n3,x\n", "2", r"t\.csv:3: 'x'; expected a finite number in column 2"),
        ("1,2\n3\n", "2", r"t\.csv:2: 1 columns"),
        ("1,2\nnan,3\n", "1", r"t\.csv:2: 'nan'"),
        ("1,2\n,3\n", "1", r"t\.csv:2: ''"),
        ("", "1", "no line of numbers"),
        ("a,b\n", "a", "no line of numbers"),
    ],
)
def test_a_file_or_a_column_that_is_wrong_is_refused(
    text: str, column: str, found: str, tmp_path: Path
) -> None:
    with pytest.raises(nirmap.NirmapError, match=found):
        read_columns(written(tmp_path / "t.csv", text), [column])


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\x89HDF\r\n\xff\xfe\x00")
    with pytest.raises(nirmap.NirmapError, match=r"t\.csv': it is no text"):
        read_columns(tmp_path / "t.csv", ["1"])


def test_one_column_is_for_all_elements_and_several_are_for_one_each(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "1,2,3,4\n5,6,7,8\n")
    assert stimulus(str(path), (2, 2), columns=["2"]).tolist() == [2, 6]
    assert stimulus(str(path), (2, 2), columns=["1", "2", "3", "4"]).tolist() == [
        [[1, 2], [3, 4]],
        [[5, 6], [7, 8]],
    ]
    with pytest.raises(nirmap.NirmapError, match="3 columns for an Input of 4 elements"):
        stimulus(str(path), (2, 2), columns=["1", "2", "3"])


def test_steps_cut_a_file_and_never_stretch_it(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "1\n2\n3\n")
    assert stimulus(str(path), (1,), steps=2).tolist() == [1, 2]
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    assert stimulus(str(tmp_path / "x.npy"), (2,), steps=2).tolist() == [[0, 1], [2, 3]]
    for name in ("t.csv", "x.npy"):
        with pytest.raises(nirmap.NirmapError, match="3 steps; expected at least 4"):
            stimulus(str(tmp_path / name), (2,), steps=4)


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(3, 2), np.ones((3, 4, 2), np.float32), np.ones(3, bool)]
)
def test_an_array_is_read_as_it_is(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    found = stimulus(str(tmp_path / "x.npy"), (2,))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, array)


def test_an_array_that_is_none_is_refused(tmp_path: Path) -> None:
    pickled: Any = np.array([{"any": "object"}], dtype=object)
    np.save(tmp_path / "pickled.npy", pickled, allow_pickle=True)
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "one.npy", np.array(1.0))
    (tmp_path / "short.npy").write_bytes((tmp_path / "one.npy").read_bytes()[:-4])
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("pickled", "text", "one", "short", "empty"):
        with pytest.raises(nirmap.NirmapError, match=rf"{name}\.npy"):
            stimulus(str(tmp_path / f"{name}.npy"), (1,))


def test_every_input_has_one_source() -> None:
    names = ["a", "a=b", "c"]
    assert as_sources(["random"], names) == dict.fromkeys(names, "random")
    assert as_sources(["c=x.csv", "random:2", "a=b=y.csv"], names) == {
        "a": "random:2",
        "a=b": "y.csv",
        "c": "x.csv",
    }
    assert as_sources(["x=1.csv"], ["a"]) == {"a": "x=1.csv"}
    with pytest.raises(nirmap.NirmapError, match=r"input 'c': no source; .*add --input c=SOURCE"):
        as_sources(["a=1", "a=b=2"], names)
    with pytest.raises(nirmap.NirmapError, match="two sources"):
        as_sources(["c=1", "c=2", "random"], names)
    with pytest.raises(nirmap.NirmapError, match="NAME=SOURCE for each of 'a', 'a=b', 'c'"):
        as_sources(["1", "2"], names)
