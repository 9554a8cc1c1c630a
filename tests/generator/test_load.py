"""If these fail, a declaration is read as something else than was written, or an error points at the wrong line."""

from __future__ import annotations

import bisect
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nirmap_generator import load as load_module
from nirmap_generator.load import DataPath, Document, load
from nirmap_generator.problems import DeclarationError, Problem

# libyaml's parser and PyYAML's own: an installation may have either.
LOADERS = (load_module.LOADER, yaml.SafeLoader)
# PyYAML's functions are typed in part only.
YAML: Any = yaml

GOOD = """\
# A mapping as people write it.
framework: norse
package: {distribution: norse, versions: ">=1.1,<2", imports: [norse.torch]}
time_step: 1.0e-3
nodes:
  LIF:
  - module: norse.torch.LIFBoxCell
    build:
      tau_mem_inv: tensor(1 / tau)
      p: 'é "x"'
    requires:
      - {that: r == 1, because: no gain}
    text: |
      two
      lines
    nothing:
"""


@pytest.fixture(params=LOADERS, ids=["libyaml", "python"])
def either_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "LOADER", request.param)


def read(content: str | bytes) -> Document:
    """The document of a file with the content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(path, shown_as="x.yaml")


def refused(content: str | bytes) -> tuple[Problem, ...]:
    with pytest.raises(DeclarationError) as caught:
        read(content)
    return caught.value.problems


def places(data: Any, path: DataPath = ()) -> Iterator[tuple[DataPath, Any]]:
    """Every value in the data, with its path."""
    yield path, data
    if isinstance(data, dict):
        for key, value in cast("dict[str, Any]", data).items():
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(cast("Sequence[Any]", data)):
            yield from places(value, (*path, index))


class Text:
    """A text in which positions are looked up."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]

    def offset(self, position: tuple[int, int]) -> int:
        line, column = position
        offset = self.starts[line - 1] + column - 1
        assert bisect.bisect_right(self.starts, offset) == line, "the column is beyond the end of the line"
        return offset


# Values of JSON. Texts are short, since YAML allows a key at most 1024 characters, escapes counted.
CHARACTERS = st.characters(codec="utf-8")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | FLOATS


def nested(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)

    return st.recursive(SCALARS | texts, extend, max_leaves=25)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types: 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    return repr(left) == repr(right)


@pytest.mark.parametrize("loader", LOADERS, ids=["libyaml", "python"])
@pytest.mark.parametrize("indent", [None, 2])
@settings(deadline=None)
@given(data=nested(st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=100)))
def test_json_reads_as_what_it_is_with_every_position(loader: Any, indent: int | None, data: Any) -> None:
    """The independent reader is json: from each position on, it reads the value that is said to stand there."""
    text = Text(json.dumps(data, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_module, "LOADER", loader)
        document = read(text.text)
    assert same(document.data, data)
    decoder = json.JSONDecoder()
    for path, value in places(data):
        assert same(decoder.raw_decode(text.text, text.offset(document.position(path)))[0], value)
        if path and isinstance(path[-1], str):
            assert decoder.raw_decode(text.text, text.offset(document.key_position(path)))[0] == path[-1]


def _dumped(data: Any, *, dumper: Any = yaml.SafeDumper, **style: Any) -> str:
    text: str = YAML.dump(data, Dumper=dumper, **style)
    return text


class Quoting(yaml.SafeDumper):
    """Quotes every string, so that it is read as a string by every reader."""


def _quoted(dumper: Any, text: str) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    return node


Quoting.add_representer(str, _quoted)


@pytest.mark.parametrize("loader", LOADERS, ids=["libyaml", "python"])
@settings(deadline=None)
@given(data=nested(st.text(CHARACTERS, max_size=50)), flow=st.booleans() | st.none())
def test_what_pyyaml_dumps_reads_the_same(loader: Any, data: Any, flow: bool | None) -> None:
    dumped = _dumped(data, dumper=Quoting, default_flow_style=flow, sort_keys=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_module, "LOADER", loader)
        assert same(read(dumped).data, data)


@settings(deadline=None)
@given(
    data=nested(
        st.text(CHARACTERS, max_size=50).filter(lambda text: not text or text[0] not in "+-.0123456789")
    ),
    flow=st.booleans() | st.none(),
    width=st.sampled_from([20, 80, 10**9]),
)
def test_plain_yaml_reads_the_same_with_every_position(data: Any, flow: bool | None, width: int) -> None:
    """From each position on, PyYAML's scanner sees the value, or the start of the collection, said to be there."""
    text = Text(_dumped(data, default_flow_style=flow, width=width, sort_keys=False))
    document = read(text.text)
    assert same(document.data, data)
    scalars = {
        token.start_mark.index: token.value
        for token in yaml.scan(text.text, Loader=yaml.SafeLoader)
        if isinstance(token, yaml.ScalarToken)
    }
    for path, value in places(data):
        offset = text.offset(document.position(path))
        start = text.text[offset : offset + 2]
        if isinstance(value, list):
            assert start[0] in "[-"
        elif isinstance(value, dict):
            # In block style a mapping starts with its first key, or with the question mark before a long one.
            assert (
                start[0] == "{"
                or start == "? "
                or scalars[offset] == next(iter(cast("dict[str, Any]", value)))
            )
        else:
            assert scalars[offset] == (value if isinstance(value, str) else _dumped(value).split("\n")[0])
        if path and isinstance(path[-1], str):
            assert scalars[text.offset(document.key_position(path))] == path[-1]


@settings(deadline=None)
@given(data=nested(st.text(CHARACTERS, max_size=50)))
def test_windows_and_old_mac_line_ends_read_the_same(data: Any) -> None:
    """A checkout on Windows must not change digests, or every generated file would be stale there."""
    unix = _dumped({"key": data}, dumper=Quoting)
    document = read(unix)
    for other in (unix.replace("\n", "\r\n"), unix.replace("\n", "\r")):
        assert read(other) == document
    assert document.digest == hashlib.sha256(unix.encode()).hexdigest()


@pytest.mark.usefixtures("either_loader")
def test_a_declaration_reads_as_it_is_written() -> None:
    document = read(GOOD)
    row = document.data["nodes"]["LIF"][0]
    assert document.data["time_step"] == 1e-3
    assert row["build"] == {"tau_mem_inv": "tensor(1 / tau)", "p": 'é "x"'}
    assert row["text"] == "two\nlines\n"
    assert row["nothing"] is None
    assert document.position(()) == (2, 1)
    assert document.position(("package", "imports", 0)) == (3, 1 + GOOD.splitlines()[2].index("norse.torch"))
    assert document.position(("nodes", "LIF")) == (7, 3)
    assert document.position(("nodes", "LIF", 0)) == (7, 5)
    assert document.key_position(("nodes", "LIF", 0, "requires", 0, "because")) == (12, 24)
    assert document.position(("nodes", "LIF", 0, "requires", 0, "because")) == (12, 33)


def test_a_missing_key_is_reported_at_the_mapping_that_lacks_it() -> None:
    document = read(GOOD)
    assert document.position(("nodes", "LIF", 0, "read", "tau")) == (7, 5)
    assert document.key_position(("nodes", "LIF", 0)) == (7, 5)
    assert document.key_position(("nodes", "LIF", 7, "x")) == (7, 3)


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    document = read(b"\xef\xbb\xbfa: 1\n")
    assert document.data == {"a": 1}
    assert document.key_position(("a",)) == (1, 1)


def test_the_name_in_messages_is_the_path_unless_another_is_given(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: 1\n")
    assert load(tmp_path / "x.yaml").file == (tmp_path / "x.yaml").as_posix()
    assert load(str(tmp_path / "x.yaml"), shown_as="mappings/x.yaml").file == "mappings/x.yaml"


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-4", 1e-4),
        ("1.0e-4", 1e-4),
        ("1E4", 1e4),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("0", 0),
        ("-0.0", -0.0),
        ("+3", 3),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("'no'", "no"),
        ('"010"', "010"),
        ('"2024-01-01"', "2024-01-01"),
        ("y", "y"),
        ("n", "n"),
        ("1.0.0", "1.0.0"),
        ("1 / tau", "1 / tau"),
        ("+", "+"),
        ("0.1.2_3", "0.1.2_3"),
        ("v_leak == 0", "v_leak == 0"),
    ],
)
def test_a_value_has_the_meaning_that_it_looks_like(written: str, value: object) -> None:
    assert same(read(f"a: {written}\n").data["a"], value)


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("written", "found"),
    [
        *((word, "YAML 1.1 reads as a boolean") for word in ("yes", "No", "ON", "off")),
        ("010", "leading zeros"),
        ("08", "leading zeros"),
        ("-007.5", "leading zeros"),
        ("1_000", "underscores"),
        ("1_000.5e3", "underscores"),
        ("0x1f", "not decimal"),
        ("0o17", "not decimal"),
        ("0b1_0", "not decimal"),
        ("1:30", "base 60"),
        ("1:30:59.5", "base 60"),
        ("2024-01-01", "a date"),
        ("2024-01-01T10:00:00Z", "a date"),
        ("2001-12-14 21:59:43.10 -5", "a date"),
        (".inf", "not finite"),
        ("-.INF", "not finite"),
        (".nan", "not finite"),
        ("1e999", "beyond the largest number"),
        pytest.param("9" * 5000, "5000 characters", id="digits"),
        ("=", "equals sign"),
        ("<<", "merge key"),
    ],
)
def test_a_value_that_readers_disagree_on_is_refused(written: str, found: str) -> None:
    """Otherwise a threshold of 010 would be 8 here and 10 in the next tool."""
    (problem,) = refused(f"a:\n  - {written}\n")
    assert (problem.line, problem.column, problem.path) == (2, 5, "a[0]")
    assert found in problem.found
    assert "quotes" in problem.do
    assert read(f'a:\n  - "{written}"\n').data == {"a": [written]}


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, 1, "a"), "the key 'a' again"),
        ('{"a": 1,\n "a": 3}', (2, 2, "a"), "the key 'a' again"),
        ("a:\n  1: x\n", (2, 3, "a"), "the key 1, which is not a text"),
        ("a:\n  no: x\n", (2, 3, "a"), "the key no"),
        ("a:\n  ~: x\n", (2, 3, "a"), "the key ~"),
        ("? [1]\n: x\n", (1, 3, ""), "a key that is not a text"),
        ("a: !!python/object/apply:os.system [ls]\n", (1, 4, "a"), "the tag tag:yaml.org,2002:python/object"),
        ("a: !mine x\n", (1, 4, "a"), "the tag !mine"),
        ("a: !!binary aGk=\n", (1, 4, "a"), "the tag tag:yaml.org,2002:binary"),
        ("a: ! x\n", (1, 4, "a"), "the tag !"),
        ("a: !!str 1\n", (1, 4, "a"), "the tag tag:yaml.org,2002:str"),
        ("!mine\na: 1\n", (1, 1, ""), "the tag !mine"),
        ("a: &x 1\n", (1, 4, "a"), "the anchor &x"),
        ("a: [*x]\n", (1, 5, "a[0]"), "the alias *x"),
        ("*x : 1\n", (1, 1, ""), "a key that is not a text"),
        ("b: 1\n<<: {a: 1}\n", (2, 1, ""), "a merge key"),
        ("a: 1\n---\nb: 1\n", (2, 1, ""), "a second document"),
        ("%YAML 1.1\n---\na: 1\n", (1, 1, ""), "a directive"),
        ("", (1, 1, ""), "an empty file"),
        ("# nothing\n\n", (1, 1, ""), "an empty file"),
        ("---\n...\n", (2, 1, ""), "an empty document"),
        ("a:\n\t- 1\n", (2, 1, ""), "a tab"),
        ("a: [1,\n  2\n", (3, 1, ""), ""),
        ("a: 1\n b: 2\n", (2, 3, ""), "mapping values are not allowed"),
        ("a: é\nb: \x01\n", (2, 4, ""), "the character U+0001"),
        ("a: 'x\u2028y'\n", (1, 6, ""), "the character U+2028"),
        ("[" * 51 + "]" * 51, (1, 51, "[0]" * 50), "a value nested deeper"),
    ],
)
def test_what_is_refused_is_refused_at_its_place(text: str, place: tuple[int, int, str], found: str) -> None:
    problem = next(problem for problem in refused(text) if found in problem.found)
    assert (problem.file, problem.line, problem.column, problem.path) == ("x.yaml", *place)
    assert problem.expected


def test_fifty_levels_are_allowed() -> None:
    assert [path for path, value in places(read("[" * 50 + "]" * 50).data) if value == []] == [(0,) * 49]


def test_half_a_character_is_refused_by_both_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could never be written to a generated file."""
    for loader in LOADERS:
        monkeypatch.setattr(load_module, "LOADER", loader)
        for text in ('a: "\\ud800"', '"\\ud800": 1'):
            assert len(refused(text)) == 1


def test_a_file_that_is_not_utf_8_is_refused_at_the_byte() -> None:
    (problem,) = refused("a: é\nb: é".encode() + b"\xff")
    assert (problem.line, problem.column) == (2, 5)
    assert "0xff" in problem.found
    (problem,) = refused(b"\xef\xbb\xbfa\xff")
    assert (problem.line, problem.column) == (1, 2)
    assert refused("a: 1\n".encode("utf-16"))


def test_a_large_file_is_refused_before_it_is_parsed() -> None:
    start = "a: |\n"
    largest = start + " " * (2**20 - len(start) - 1) + "\n"
    assert read(largest).data.keys() == {"a"}
    (problem,) = refused(largest + "#")
    assert "1 MiB" in problem.found


def test_a_file_that_cannot_be_read_is_a_problem_and_not_a_traceback(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(DeclarationError, match="no file to read"):
            load(path)


@pytest.mark.usefixtures("either_loader")
def test_all_problems_of_a_file_are_told_at_once_up_to_the_unreadable_one() -> None:
    problems = refused("a: yes\nb: &x 010\nb: !t [*x, 1:30]\n<<: 1\n---\nc: off\nd: [\n")
    # Line 2 is an anchor and a number, line 3 a second key, a tag, an alias and a number; the file ends inside a list.
    assert [problem.line for problem in problems] == [1, 2, 2, 3, 3, 3, 3, 4, 5, 6, 8]


# What a damaged file has in some place, instead of what stood there: where, how much of it, and the new bytes.
MARKS = [
    b"!",
    b"&a ",
    b"*a",
    b"%",
    b"\t",
    b"? ",
    b": ",
    b"- ",
    b"|",
    b'"',
    b'"\\U',
    b"{",
    b"[",
    b"---\n",
    b"<<",
]
EDITS = st.tuples(
    st.integers(0, len(GOOD)), st.integers(0, 8), st.binary(max_size=4) | st.sampled_from(MARKS)
)


@pytest.mark.parametrize("loader", LOADERS, ids=["libyaml", "python"])
@settings(deadline=None, max_examples=300)
@given(edits=st.lists(EDITS, min_size=1, max_size=4))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(
    loader: Any, edits: list[tuple[int, int, bytes]]
) -> None:
    """A person's typing error must never end in a traceback."""
    content = GOOD.encode()
    for start, length, new in edits:
        content = content[:start] + new + content[start + length :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_module, "LOADER", loader)
        data, problems = read_or_refused(content)
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in problems)
    assert problems or json.loads(json.dumps(data, allow_nan=False, ensure_ascii=False).encode()) == data


def read_or_refused(content: bytes) -> tuple[Any, tuple[Problem, ...]]:
    try:
        return read(content).data, ()
    except DeclarationError as error:
        return None, error.problems


@pytest.mark.parametrize(
    "text",
    ['a: "\\UFFFFFFFF"', "a: !<tag:%ff> x", "a: !%ed%a0%80 x", "%YAML 1." + "9" * 5000 + "\n---\na: 1"],
    ids=["character", "tag", "surrogate", "version"],
)
@pytest.mark.usefixtures("either_loader")
def test_what_makes_the_parsers_themselves_fail_is_a_problem(text: str) -> None:
    """Each of these ends in an exception of Python's own in one of the two parsers, or in another of their errors."""
    assert refused(text)


@pytest.mark.parametrize("opening", ["[", "{", "- ", "[a: ", "? "])
def test_deep_nesting_ends_at_once_and_not_in_a_stack_overflow(opening: str) -> None:
    assert len(refused(opening * (10**6 // len(opening)))) == 1
