"""Registries held against the real classes: if these fail, a framework that changed is used as if it had not."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import nirmap
import nirmap_registry
from nirmap import registry as loading
from nirmap.errors import MappingError, UnsupportedNodeError
from nirmap.registry import check_registry, frameworks, load_registry, rows_for_module, rows_for_node
from nirmap_registry.rows import Registry, Row, StateCall, Variable
from runtime.suitable import FRAMEWORKS

ROOT = Path(__file__).parents[2]


class Leaky(torch.nn.Module):
    """A toy neuron with one constructor argument and one state argument."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, x: torch.Tensor, mem: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mem = self.beta * mem + x
        return mem, mem


class Forgetful(Leaky):
    """The same without its state argument."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return x


class Grown(Leaky):
    """The same after an update of its framework."""

    def __init__(self, beta: float, inhibition: bool = False) -> None:
        super().__init__(beta)
        self.inhibition = inhibition


class Record(NamedTuple):
    v: torch.Tensor
    i: torch.Tensor


class Parameters(NamedTuple):
    tau: float
    method: str = "super"


class Recorded(torch.nn.Module):
    def __init__(self, p: Parameters) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor, state: Record) -> tuple[torch.Tensor, Record]:
        return x, state


def _nothing(*arguments: Any) -> Any:
    """Registries are checked without building anything."""
    raise NotImplementedError


def row(module: type[torch.nn.Module] = Leaky, **changes: Any) -> Row:
    usual: dict[str, Any] = {
        "node": "LI",
        "module": module,
        "path": f"toy.{module.__name__}",
        "source": "toy.yaml:7",
        "discretisation": "forward_euler",
        "build": _nothing,
        "read": _nothing,
        "state": StateCall("positional", "mem", (Variable("v", "mem"),)),
        "arguments": ("beta",),
        "accounted": frozenset({"beta"}),
    }
    return Row(**{**usual, **changes})


def toy(*rows: Row, **changes: Any) -> Registry:
    usual: dict[str, Any] = {
        "framework": "toy",
        "description": "",
        "distribution": "torch",
        "versions": ">=1",
        "time_step": 1e-3,
        "rows": rows,
        "bypassed": (),
        "not_mapped": {},
    }
    return Registry(**{**usual, **changes})


def refusal(registry: Registry) -> MappingError:
    with pytest.raises(MappingError) as raised:
        check_registry(registry)
    assert raised.value.where == "toy.yaml:7"
    return raised.value


def test_a_row_that_fits_its_class_is_accepted() -> None:
    check_registry(toy(row()))


def test_a_forward_without_the_declared_state_argument_is_refused() -> None:
    error = refusal(toy(row(), row(Forgetful)))
    assert error.found == "toy.Forgetful.forward(x) has no state argument 'mem'"
    assert "'mem'" in error.expected
    assert "correct 'state'" in error.do


def test_a_state_argument_under_another_name_is_refused() -> None:
    other = StateCall("positional", "mem", (Variable("v", "mem"), Variable("i", "syn")))
    assert "forward(x, mem) has no state argument 'syn'" in refusal(toy(row(state=other))).found


def test_an_argument_that_the_constructor_lacks_is_refused() -> None:
    error = refusal(toy(row(arguments=("beta", "threshold"))))
    assert "'threshold'" in error.found
    assert "beta" in error.expected


def test_an_argument_that_the_mapping_says_nothing_about_is_refused() -> None:
    error = refusal(toy(row(Grown)))
    assert "toy.Grown has the argument 'inhibition'" in error.found
    check_registry(toy(row(Grown, accounted=frozenset({"beta", "inhibition"}))))


def test_a_positional_constructor_of_any_arguments_hides_nothing() -> None:
    class Anything(Leaky):
        def __init__(self, *beta: float, **more: Any) -> None:
            super().__init__(beta[0])

    check_registry(toy(row(Anything)))


RECORDED: dict[str, Any] = {
    "arguments": ("p",),
    "records": (("p", Parameters, ("tau",)),),
    "accounted": frozenset({"p.tau", "p.method"}),
    "state": StateCall("record", "state", (Variable("v", "v"), Variable("i", "i")), Record),
}


def test_a_record_of_parameters_is_held_against_its_class() -> None:
    check_registry(toy(row(Recorded, **RECORDED)))
    unknown = {**RECORDED, "records": (("p", Parameters, ("tau", "gamma")),)}
    assert "'gamma'" in refusal(toy(row(Recorded, **unknown))).found
    dropped = {**RECORDED, "accounted": frozenset({"p.tau"})}
    assert "'method'" in refusal(toy(row(Recorded, **dropped))).found


def test_a_record_of_state_with_other_fields_is_refused() -> None:
    state = replace(RECORDED["state"], variables=(Variable("v", "v"),))
    error = refusal(toy(row(Recorded, **{**RECORDED, "state": state})))
    assert error.found == "the record Record has the fields v, i"
    assert error.expected == "v"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_registry_fits_what_is_installed(framework: str) -> None:
    registry = load_registry(framework)
    assert registry.framework == framework
    assert registry is load_registry(framework)
    check_registry(registry)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_class_that_loses_its_state_argument_is_found_in_every_registry(framework: str) -> None:
    for entry in load_registry(framework).rows:
        if entry.state is not None and entry.state.call != "attributes":
            lost = replace(entry, module=type("Lost", (entry.module,), {"forward": Forgetful.forward}))
            with pytest.raises(MappingError, match="has no state argument"):
                check_registry(toy(lost))


def test_an_unknown_framework_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedNodeError, match="'nengo'; expected one of " + ", ".join(FRAMEWORKS)):
        load_registry("nengo")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A framework 'toy' beside the others."""
    module = types.ModuleType("toy_registry")
    monkeypatch.setitem(sys.modules, "toy_registry", module)
    monkeypatch.setattr(loading, "FRAMEWORKS", {**nirmap_registry.FRAMEWORKS, "toy": "toy_registry"})
    load_registry.cache_clear()
    yield module
    load_registry.cache_clear()


def test_a_framework_that_fails_on_import_is_refused_and_the_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: types.ModuleType
) -> None:
    (tmp_path / "toy_registry.py").write_text("raise OSError('libtoy.so is missing')")
    monkeypatch.delitem(sys.modules, "toy_registry")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(MappingError) as raised:
        load_registry("toy")
    assert raised.value.where == "framework 'toy'"
    assert "OSError: libtoy.so is missing" in raised.value.found
    assert "pip install" in raised.value.do
    for framework in nirmap_registry.FRAMEWORKS:
        assert load_registry(framework).framework == framework


def test_a_registry_of_another_package_is_checked_too(added: types.ModuleType) -> None:
    added.REGISTRY = toy(row(Forgetful))  # type: ignore[attr-defined]
    with pytest.raises(MappingError, match="no state argument 'mem'"):
        load_registry("toy")


def test_a_version_outside_the_range_warns_with_both(added: types.ModuleType) -> None:
    added.REGISTRY = toy(row(), versions=">=99,<100")  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match=rf"torch {torch.__version__.split('+')[0]}.*'toy'.*>=99,<100"):
        load_registry("toy")


def test_a_distribution_that_is_not_installed_has_no_version_to_warn_of(added: types.ModuleType) -> None:
    added.REGISTRY = toy(row(), distribution="no-such-distribution", versions=">=99")  # type: ignore[attr-defined]
    assert load_registry("toy").framework == "toy"


def test_rows_are_found_by_primitive_and_by_exact_class() -> None:
    first, second, other = row(), row(path="toy.Second"), row(Grown, node="LIF")
    registry = toy(first, other, second)
    assert rows_for_node(registry, "LI") == [first, second]
    assert rows_for_module(registry, Leaky) == [first, second]
    assert rows_for_module(registry, Grown) == [other]
    assert rows_for_node(registry, "I") == []


def run(program: str) -> str:
    environment = {"PYTHONPATH": ":".join(str(ROOT / name) for name in ("src", "generated", "generator"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_importing_nirmap_imports_neither_torch_nor_nir_nor_a_framework() -> None:
    """Half a second for every command, and a broken framework would break the others."""
    names = ["torch", "nir", "numpy", "networkx", "nirmap_generator", "sympy", *nirmap_registry.FRAMEWORKS]
    assert run(f"import sys, nirmap; print([name for name in {names} if name in sys.modules])") == "[]"


def test_a_conversion_imports_its_framework_only() -> None:
    others = [name for name in nirmap_registry.FRAMEWORKS if name != "torch"]
    program = (
        "import sys, nirmap, nir, numpy as np\n"
        "nirmap.from_nir(nir.NIRGraph.from_list(nir.Linear(np.ones((2, 2)))), dt=1e-4)\n"
        f"print([name for name in {[*others, 'nirmap_generator', 'yaml']} if name in sys.modules])"
    )
    assert run(program) == "[]"


def test_listing_frameworks_imports_none() -> None:
    program = (
        "import sys\nfrom nirmap.registry import frameworks\nframeworks()\n"
        f"print([name for name in {[n for n in nirmap_registry.FRAMEWORKS if n != 'torch']} if name in sys.modules])"
    )
    assert run(program) == "[]"
    assert frameworks() == {**frameworks(), **nirmap_registry.FRAMEWORKS}


def declare(folder: Path, name: str) -> None:
    """What installing a package with a framework leaves behind in a folder of modules."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[nirmap.frameworks]\n{name} = {name}.registry\n")


def test_packages_are_looked_for_once_and_anew_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look through all installed packages takes longer than to write a network."""
    looked: list[str] = []
    look: Any = importlib.metadata.entry_points

    def entry_points(**keywords: Any) -> Any:
        looked.append("again")
        return look(**keywords)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    declare(tmp_path, "firstsnn")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert frameworks()["firstsnn"] == "firstsnn.registry"
    for _ in range(3):
        frameworks()
    assert looked == ["again"]
    declare(tmp_path, "secondsnn")
    assert "secondsnn" not in frameworks()
    loading.forget()
    assert frameworks()["secondsnn"] == "secondsnn.registry"
    # What is handed out is the caller's own.
    frameworks().clear()
    assert frameworks().keys() > {"firstsnn", "secondsnn"}


def test_public_names_are_there() -> None:
    for name in nirmap.__all__:
        assert getattr(nirmap, name) is not None
    assert set(nirmap.__all__) <= set(dir(nirmap))
    with pytest.raises(AttributeError, match="from_nri"):
        nirmap.from_nri  # noqa: B018
