"""If these fail, generating writes what it should not, or not what it should, or a proof is skipped that is due."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from declaring import ROOT, copied, copied_in_part, edited
from nirmap_generator import pipeline
from nirmap_generator.pipeline import CACHE, Declarations, check, generate, prove_all, read
from nirmap_generator.problems import DeclarationError

SNNTORCH = "frameworks/snntorch.yaml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a part of the mappings, what was generated from it, and the memory of what was proven."""
    root = tmp_path_factory.mktemp("project")
    generate(copied_in_part(root, "snntorch"), root / "generated")
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a part of the mappings, from which nothing was generated."""
    return copied_in_part(tmp_path, "snntorch")


@pytest.fixture
def generated(folder: Path, project: Path) -> Path:
    """What was generated from the copy, with the memory of it beside the mappings."""
    for name in ("generated", CACHE.parent):
        shutil.copytree(project / name, folder.parent / name)
    return folder.parent / "generated"


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digest of every declarations that are proven from now on."""
    seen: list[str] = []

    def spy(declarations: Declarations) -> None:
        seen.append(declarations.digest)
        prove_all(declarations)

    monkeypatch.setattr(pipeline, "prove_all", spy)
    return seen


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time stamp of every file."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def generate_elsewhere(folder: Path, target: Path, seed: str) -> None:
    """Generates in a process of its own, in which texts have other hashes and sets another order."""
    code = (
        "import sys; from pathlib import Path; from nirmap_generator.pipeline import generate;"
        "generate(Path(sys.argv[1]), Path(sys.argv[2]), cache=Path(sys.argv[3]))"
    )
    arguments = [sys.executable, "-c", code, str(folder), str(target), str(target / "cache" / "proofs.json")]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "generator")}
    subprocess.run(arguments, check=True, env=environment, cwd=target.parent)


def test_the_same_yaml_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for seed in ("1", "2"):
        generate_elsewhere(folder, tmp_path / seed, seed)
    one, two = ({name: data for name, (data, _) in contents(tmp_path / seed).items()} for seed in ("1", "2"))
    assert len(one) > 8
    assert one == two


def test_the_folder_where_the_yaml_lies_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "c").mkdir(parents=True)
    files: list[dict[str, bytes]] = []
    for parent in (tmp_path / "a", tmp_path / "b" / "c"):
        generate(copied_in_part(parent), parent / "out")
        files.append({name: data for name, (data, _) in contents(parent / "out").items()})
    assert files[0] == files[1]


def test_unchanged_yaml_changes_no_byte_and_no_time_stamp(folder: Path, generated: Path) -> None:
    before = contents(generated)
    changes = generate(folder, generated)
    assert (changes.written, changes.deleted) == ((), ())
    assert set(changes.unchanged) == set(before)
    assert contents(generated) == before


@pytest.mark.parametrize(
    ("file", "old", "new", "written"),
    [
        (
            SNNTORCH,
            "snnTorch has no delay line",
            "there is no delay line",
            ("nirmap_registry/snntorch.py",),
        ),
        ("functions.yaml", "# What a traced", "# what a traced", ("nirmap_registry/functions.py",)),
        (
            "shared/torch_nn.yaml",
            "# The layers",
            "# the layers",
            ("nirmap_registry/torch_nn.py",),
        ),
    ],
)
def test_one_edited_file_changes_only_what_depends_on_it(
    folder: Path, generated: Path, file: str, old: str, new: str, written: tuple[str, ...]
) -> None:
    before = contents(generated)
    edited(folder / file, old, new)
    changes = generate(folder, generated)
    assert changes.written == written
    after = contents(generated)
    assert {name for name in after if after[name] != before[name]} == set(written)


def test_a_left_over_file_is_removed_and_nothing_else(folder: Path, generated: Path) -> None:
    """The registry of a framework that is no longer declared would still be found."""
    (generated / "notes.txt").write_text("mine")
    (generated / "nirmap_registry" / "py.typed").touch()
    (generated / "nirmap_registry" / "old.py").write_text("")
    (folder / SNNTORCH).unlink()
    changes = generate(folder, generated)
    assert changes.deleted == ("nirmap_registry/old.py", "nirmap_registry/snntorch.py")
    names = set(contents(generated))
    assert {"notes.txt", "nirmap_registry/py.typed"} <= names
    assert "snntorch" not in (generated / "nirmap_registry" / "__init__.py").read_text()


def test_a_file_that_was_edited_by_hand_is_told_with_a_diff(folder: Path, generated: Path) -> None:
    assert check(folder, generated) == []
    path = generated / "nirmap_registry" / "snntorch.py"
    edited(
        path,
        "return catalogue.equivalent_i(node, gain=r * dt)",
        "return catalogue.equivalent_i(node, gain=r)",
    )
    (difference,) = check(folder, generated)
    assert "--- a/nirmap_registry/snntorch.py" in difference
    assert "-    return catalogue.equivalent_i(node, gain=r)\n" in difference
    assert "+    return catalogue.equivalent_i(node, gain=r * dt)\n" in difference
    assert "gain=r)" in path.read_text()
    assert generate(folder, generated).written == ("nirmap_registry/snntorch.py",)
    assert check(folder, generated) == []


def test_a_missing_and_a_left_over_file_are_told(folder: Path, generated: Path) -> None:
    (generated / "nirmap_registry" / "functions.py").unlink()
    (generated / "nirmap_registry" / "old.py").write_text("x = 1\n")
    first, second = check(folder, generated)
    assert first.startswith("--- /dev/null\n+++ b/nirmap_registry/functions.py")
    assert second.startswith("--- a/nirmap_registry/old.py\n+++ /dev/null")


ERRORS = {
    "yaml": ("nir: ", "nir ", "nir.yaml"),
    "schema": ("\nfunctions:\n", "\nfunction:\n", "functions.yaml"),
    "expression": ("{gain: r * dt, shift: v_reset}", "{gain: r ** dt dt, shift: v_reset}", SNNTORCH),
    "name": ("{gain: r * dt, shift: v_reset}", "{gain: r * d, shift: v_reset}", SNNTORCH),
    "proof": ("{gain: r * dt, shift: v_reset}", "{gain: r * 2 * dt, shift: v_reset}", SNNTORCH),
    "equivalence": ("gain: 1 / gain, scale: 1 / scale}", "gain: gain, scale: 1 / scale}", "nir.yaml"),
    "nir": ("description: Integrator.", "description: Integrator.\n    extra: 1", "nir.yaml"),
}


@pytest.mark.parametrize(("old", "new", "file"), ERRORS.values(), ids=ERRORS)
def test_nothing_is_written_where_there_is_an_error(
    folder: Path, generated: Path, old: str, new: str, file: str
) -> None:
    edited(folder / SNNTORCH, "snnTorch has no delay line", "no delay line")  # It would be written otherwise.
    (generated / "nirmap_registry" / "old.py").write_text("")
    before = contents(folder.parent)
    edited(folder / file, old, new)
    del before[f"mappings/{file}"]
    with pytest.raises(DeclarationError) as caught:
        generate(folder, generated)
    assert {problem.file for problem in caught.value.problems} <= {f"mappings/{file}", f"mappings/{SNNTORCH}"}
    after = contents(folder.parent)
    del after[f"mappings/{file}"]
    assert after == before
    with pytest.raises(DeclarationError):
        check(folder, generated)


def test_a_missing_file_is_a_problem_of_its_own(folder: Path) -> None:
    (folder / "functions.yaml").unlink()
    with pytest.raises(DeclarationError) as caught:
        read(folder)
    (problem,) = caught.value.problems
    assert problem.file == "mappings/functions.yaml"
    assert "no file" in problem.found


def test_what_was_proven_is_not_proven_again(folder: Path, generated: Path, proofs: list[str]) -> None:
    generate(folder, generated)
    assert proofs == []
    assert (folder.parent / CACHE).is_file()


def test_a_changed_file_is_proven_again(folder: Path, generated: Path, proofs: list[str]) -> None:
    edited(folder / SNNTORCH, "snnTorch has no delay line", "there is none")
    for _ in range(2):
        generate(folder, generated)
    assert len(proofs) == 1
    edited(folder / "functions.yaml", "# What a traced", "# what a traced")
    generate(folder, generated)
    assert len(set(proofs)) == 2


def test_another_version_of_nir_is_proven_again(
    folder: Path, generated: Path, proofs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue is held against nir, which may have got a primitive."""

    def version(name: str) -> str:
        return f"99 of {name}"

    monkeypatch.setattr("importlib.metadata.version", version)
    generate(folder, generated)
    assert len(proofs) == 1


def test_another_generator_is_proven_again(
    folder: Path, generated: Path, proofs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "generator_digest", lambda: "another")
    generate(folder, generated)
    assert len(proofs) == 1


def test_the_digest_of_the_generator_is_that_of_its_sources() -> None:
    assert len(pipeline.generator_digest()) == 64
    folder = ROOT / "generator" / "nirmap_generator"
    assert {
        path.suffix for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    } == {
        ".py",
        ".jinja",
        ".typed",
    }


def test_a_check_proves_whatever_is_remembered(folder: Path, generated: Path, proofs: list[str]) -> None:
    check(folder, generated)
    assert len(proofs) == 1


def test_a_failed_proof_is_not_remembered(folder: Path, generated: Path, proofs: list[str]) -> None:
    edited(folder / SNNTORCH, "{gain: r * dt, shift: v_reset}", "{gain: r * 2 * dt, shift: v_reset}")
    for _ in range(2):
        with pytest.raises(DeclarationError):
            generate(folder, generated)
    assert len(proofs) == 2


CORRUPT = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a number": b"1",
    "no digest": b"{}",
    "another digest": b'{"proven": "0"}',
    "no digest but a number": b'{"proven": 1}',
    "not UTF-8": b"\xff\xfe\x00",
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_memory_does_no_harm(
    folder: Path, generated: Path, proofs: list[str], content: bytes
) -> None:
    (folder.parent / CACHE).write_bytes(content)
    for _ in range(2):
        assert generate(folder, generated).written == ()
    assert len(proofs) == 1


def test_a_memory_that_cannot_be_written_does_no_harm(
    folder: Path, tmp_path: Path, proofs: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory" / "proofs.json").mkdir(parents=True)
    for cache in (tmp_path / "file" / "proofs.json", tmp_path / "directory" / "proofs.json"):
        for _ in range(2):
            generate(folder, tmp_path / "generated", cache=cache)
    assert len(proofs) == 4


def test_the_memory_is_where_it_is_said_to_be(folder: Path, tmp_path: Path, proofs: list[str]) -> None:
    cache = tmp_path / "elsewhere" / "proofs.json"
    for _ in range(2):
        generate(folder, tmp_path / "generated", cache=cache)
    assert len(proofs) == 1
    assert not (folder.parent / CACHE).exists()


def test_importing_the_pipeline_does_not_import_what_only_proofs_need() -> None:
    """Where nothing changed, a second of waiting for sympy would be the whole cost."""
    code = "import sys, nirmap_generator.pipeline; sys.exit('sympy' in sys.modules or 'nir' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
