"""If these fail, a generation that is interrupted leaves half a module, or a check misses that tables are stale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirmap_generator.write import Changes, compare_files, write_files

NAMES = st.from_regex(r"(?:(?:rows|torch)/)?[a-f]{1,2}\.py", fullmatch=True)
# Carriage returns are normalised when written; their own tests are below.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"))
FILES = st.dictionaries(NAMES, TEXTS, max_size=5)


def owned(name: str) -> bool:
    return name.endswith(".py")


def content(folder: Path) -> dict[str, bytes]:
    """Everything in the folder, temporary files too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


@given(FILES, FILES)
@settings(deadline=None, max_examples=40)
def test_a_folder_holds_exactly_what_was_written_last(before: dict[str, str], after: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "new" / "folder"
        assert write_files(folder, before, owned=owned) == Changes(written=tuple(sorted(before)))
        changes = write_files(folder, after, owned=owned)
        assert compare_files(folder, after, owned) == []
        assert content(folder) == encoded(after)
        same = {key for key in after if before.get(key) == after[key]}
        assert changes == Changes(
            tuple(sorted(set(after) - same)), tuple(sorted(same)), tuple(sorted(set(before) - set(after)))
        )


@given(FILES, FILES)
@settings(deadline=None, max_examples=40)
def test_comparing_changes_nothing_and_finds_each_difference(
    before: dict[str, str], after: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, before, owned=owned)
        diffs = compare_files(folder, after, owned)
        assert content(folder) == encoded(before)
        different = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
        assert len(diffs) == len(different)
        for diff, key in zip(diffs, different, strict=True):
            assert diff.startswith("--- a/" + key if key in before else "--- /dev/null")
            assert ("+++ b/" + key if key in after else "+++ /dev/null") in diff


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("a", "b"),
        ("", "a\n"),
        ("a\x0cb\u2028c\n", "a\x0cb\u2028d\n"),
    ],
)
def test_git_can_apply_a_diff(tmp_path: Path, before: str, after: str) -> None:
    """The diff is held against another program's reading of it."""
    git = shutil.which("git")
    assert git is not None, "git is needed to apply the diff"
    write_files(tmp_path, {"x.py": before, "gone.py": "1\n"}, owned=owned)
    wanted = {"x.py": after, "new.py": "2\n"}
    patch = "".join(compare_files(tmp_path, wanted, owned)).encode()
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run([git, "apply", "-"], input=patch, cwd=tmp_path, check=True, env=environment)
    assert content(tmp_path) == encoded(wanted)


def test_an_unchanged_file_keeps_its_time_so_that_nothing_is_rebuilt(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": "1\n", "b.py": "1\n"}, owned=owned)
    for name in ("a.py", "b.py"):
        os.utime(tmp_path / name, (1, 1))
    changes = write_files(tmp_path, {"a.py": "1\n", "b.py": "2\n"}, owned=owned)
    assert (tmp_path / "a.py").stat().st_mtime == 1
    assert (tmp_path / "b.py").stat().st_mtime != 1
    assert changes == Changes(written=("b.py",), unchanged=("a.py",))


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "old.py").write_text("generated")
    assert write_files(tmp_path, {}, owned=owned).deleted == ("old.py",)
    assert content(tmp_path) == {"notes.md": b"mine"}


def test_a_file_is_utf_8_with_unix_line_ends_whatever_was_given(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": "é\r\n\rb\n"}, owned=owned)
    assert (tmp_path / "a.py").read_bytes() == b"\xc3\xa9\n\nb\n"


def test_the_locale_does_not_change_what_is_written(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from nirmap_generator.write import write_files;"
        "write_files(pathlib.Path(sys.argv[1]), {'a.py': '\\u00e9\\n'}, owned=bool)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": path,
    }
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert (tmp_path / "a.py").read_bytes() == b"\xc3\xa9\n"


def test_windows_line_ends_in_the_folder_are_stale_and_the_diff_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"1\r\n")
    (diff,) = compare_files(tmp_path, {"a.py": "1\n"}, owned)
    assert "--- a/a.py\twith carriage returns\n" in diff


def test_a_file_that_is_not_text_is_shown_as_stale(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xff\n")
    assert len(compare_files(tmp_path, {"a.py": "1\n"}, owned)) == 1
    assert write_files(tmp_path, {"a.py": "1\n"}, owned=owned).written == ("a.py",)


@pytest.mark.parametrize(("owner", "step"), [(os, "fsync"), (Path, "replace")])
def test_a_failure_leaves_the_old_file_whole_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    write_files(tmp_path, {"a.py": "old\n"}, owned=owned)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_files(tmp_path, {"a.py": "new\n"}, owned=owned)
    assert content(tmp_path) == {"a.py": b"old\n"}


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, {"a.py": "new\n"}, owned=owned)
    assert content(tmp_path) == {}


def test_the_old_file_is_there_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process sees at the moment of the exchange: the old file, and beside it the whole new one."""
    write_files(tmp_path, {"a.py": "old\n"}, owned=owned)
    seen: list[dict[str, bytes]] = []
    replace = Path.replace

    def watch(source: Path, target: Path) -> Path:
        seen.append(content(tmp_path))
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", watch)
    write_files(tmp_path, {"a.py": "new\n"}, owned=owned)
    (moment,) = seen
    assert moment.pop("a.py") == b"old\n"
    assert list(moment.values()) == [b"new\n"]


def test_permissions_are_those_of_an_ordinary_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    write_files(tmp_path, {"a.py": "1\n", "b.py": "1\n"}, owned=owned)
    assert (tmp_path / "a.py").stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "b.py").chmod(0o755)
    executable = (tmp_path / "b.py").stat().st_mode
    write_files(tmp_path, {"a.py": "1\n", "b.py": "2\n"}, owned=owned)
    assert (tmp_path / "b.py").stat().st_mode == executable


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a.py", "a/../../b.py", "/etc/a.py", "a//b.py", "./a.py", "a\\b.py"]
)
def test_a_name_that_leads_elsewhere_is_refused_before_anything_changes(tmp_path: Path, name: str) -> None:
    (tmp_path / "old.py").write_text("old")
    for act in (
        lambda: write_files(tmp_path, {"a.py": "", name: ""}, owned=owned),
        lambda: compare(tmp_path, name),
    ):
        with pytest.raises(ValueError, match="inside the folder"):
            act()
    assert content(tmp_path) == {"old.py": b"old"}


def compare(folder: Path, name: str) -> list[str]:
    return compare_files(folder, {name: ""}, owned)


def test_a_text_that_utf_8_cannot_hold_is_refused_before_anything_changes(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_files(tmp_path, {"a.py": "", "b.py": "\ud800"}, owned=owned)
    assert content(tmp_path) == {}
