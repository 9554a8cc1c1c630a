"""``.nir`` files: if these fail, a file is lost or half written, or a bad one is taken for a good one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import h5py
import nir
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.errors import GraphError
from nirmap.files import read_graph, write_graph
from oracle.building import chain
from oracle.strategies import graphs


def lif_graph() -> nir.NIRGraph:
    lif = nir.LIF(
        tau=np.array([0.01, 0.02]),
        r=np.ones(2),
        v_leak=np.zeros(2),
        v_threshold=np.ones(2),
        v_reset=np.zeros(2),
    )
    return chain([nir.Linear(np.ones((2, 2))), lif], (2,), names=["input", "lin", "lif", "output"])


def equal(first: Any, second: Any) -> bool:
    """Whether two graphs, nodes or values are the same, names, numbers, dtypes and metadata included."""
    if isinstance(first, nir.NIRNode):
        return type(first) is type(second) and equal(first.to_dict(), second.to_dict())
    if isinstance(first, dict):
        entries = cast("dict[str, Any]", first)
        return entries.keys() == second.keys() and all(
            equal(entry, second[name]) for name, entry in entries.items()
        )
    if isinstance(first, list):
        return sorted(cast("list[tuple[str, str]]", first)) == sorted(second)
    return bool(np.array_equal(np.asarray(first), np.asarray(second)))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs())
def test_what_is_written_is_read(tmp_path: Path, graph: nir.NIRGraph) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, graph)
    assert equal(read_graph(path), graph)
    assert equal(read_graph(str(path)), nir.read(path, type_check=False))


def test_layers_of_images_go_round(tmp_path: Path) -> None:
    layers: list[Any] = [
        nir.Conv1d(8, np.ones((2, 1, 3)), 1, "same", 1, 1, np.zeros(2)),
        nir.Conv2d((4, 6), np.ones((1, 1, 2, 3)), (1, 2), (1, 0), (1, 1), 1, np.zeros(1)),
        nir.SumPool2d(np.array([2, 2]), np.array([2, 1]), np.array([0, 1])),
        nir.AvgPool2d(np.array([2, 2]), np.array([2, 1]), np.array([0, 1])),
        nir.Flatten({"input": np.array([1, 2, 3])}, 0, -1),
    ]
    for layer in layers:
        graph = chain([layer], (1, 4, 6))
        write_graph(tmp_path / "graph.nir", graph)
        read = read_graph(tmp_path / "graph.nir")
        fields = cast("dict[str, Any]", vars(layer))
        for name in fields.keys() - {"input_type", "output_type"}:
            assert equal(getattr(read.nodes["0"], name), fields[name]), name


def test_a_value_that_is_not_known_is_named(tmp_path: Path) -> None:
    convolution = nir.Conv1d(None, np.ones((2, 1, 3)), 1, "same", 1, 1, np.zeros(2))
    with pytest.raises(GraphError, match=r"'/nodes/0': input_shape is None"):
        write_graph(tmp_path / "graph.nir", chain([convolution], (1, 8), (2, 8)))


def test_metadata_goes_round(tmp_path: Path) -> None:
    graph = lif_graph()
    graph.metadata = {"dt": 1e-4, "author": "me", "table": np.arange(3), "inner": {"version": 2}}
    graph.nodes["lif"].metadata = {"layer": "hidden"}
    write_graph(tmp_path / "graph.nir", graph)
    read = read_graph(tmp_path / "graph.nir")
    assert equal(read.metadata, graph.metadata)
    assert read.nodes["lif"].metadata == {"layer": "hidden"}


def test_a_parameter_without_axes_goes_round(tmp_path: Path) -> None:
    graph = lif_graph()
    for name in ("tau", "r", "v_leak", "v_threshold", "v_reset"):
        setattr(graph.nodes["lif"], name, np.array(0.5))
    write_graph(tmp_path / "graph.nir", graph)
    assert equal(read_graph(tmp_path / "graph.nir"), graph)


names = st.text(max_size=12) | st.sampled_from(
    ["a/b", "/", ".", "..", "", "a\0b", "x" * 10_000, "type", "é\n'"]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names)
def test_a_name_comes_back_or_is_refused(tmp_path: Path, name: str) -> None:
    """To HDF5, a slash in a name is a path; written as it is, another graph would be read."""
    if name in ("input", "output"):
        return
    graph = chain([nir.Scale(np.ones(2))], (2,), names=["input", name, "output"])
    path = tmp_path / "graph.nir"
    if "/" in name or "\0" in name or name in ("", "."):
        with pytest.raises(GraphError, match=re.escape(f"the name {name!r}")):
            write_graph(path, graph)
        return
    if not _is_unicode(name):
        with pytest.raises(GraphError, match="cannot be written"):
            write_graph(path, graph)
        return
    write_graph(path, graph)
    assert equal(read_graph(path), graph)


def _is_unicode(name: str) -> bool:
    """Whether a text has no half of a surrogate pair in it."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def test_what_cannot_be_stored_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, lif_graph())
    before = path.read_bytes()
    graph = lif_graph()
    graph.metadata = {"function": object()}
    with pytest.raises(GraphError, match=r"file '.*graph\.nir': it cannot be written"):
        write_graph(path, graph)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.nir"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, lif_graph())
    before = path.read_bytes()

    def crash(target: Path, graph: nir.NIRGraph, **keywords: Any) -> None:
        Path(target).write_bytes(b"half a fi")
        raise KeyboardInterrupt

    monkeypatch.setattr(nir, "write", crash)
    with pytest.raises(KeyboardInterrupt):
        write_graph(path, lif_graph())
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.nir"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path, mask: int) -> None:
    usual = os.umask(mask)
    try:
        write_graph(tmp_path / "graph.nir", lif_graph())
    finally:
        os.umask(usual)
    assert stat.S_IMODE((tmp_path / "graph.nir").stat().st_mode) == 0o666 & ~mask


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_links(tmp_path: Path) -> None:
    path, link = tmp_path / "graph.nir", tmp_path / "link.nir"
    write_graph(path, lif_graph())
    path.chmod(0o640)
    link.symlink_to(path)
    graph = lif_graph()
    graph.metadata = {"version": "second"}
    write_graph(link, graph)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert read_graph(path).metadata == {"version": "second"}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        write_graph(tmp_path / "absent" / "graph.nir", lif_graph())


def refusal(path: Path) -> GraphError:
    with pytest.raises(GraphError) as raised:
        read_graph(path)
    assert repr(str(path)) in raised.value.where
    with pytest.raises(GraphError):
        nirmap.from_nir(path, dt=1e-4)
    return raised.value


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent.nir").found
    assert "no such file" in refusal(tmp_path).found


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"nodes: {}\n"])
def test_a_file_that_is_not_hdf5(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "graph.nir").write_bytes(content)
    error = refusal(tmp_path / "graph.nir")
    assert "cannot be read" in error.found
    assert "nir.write" in error.expected


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, lif_graph())
    path.write_bytes(path.read_bytes()[:-500])
    refusal(path)


def edited(path: Path, edit: Callable[[Any], None]) -> Path:
    """A good file, changed by hand."""
    write_graph(path, lif_graph())
    with h5py.File(path, "r+") as file:
        edit(file)
    return path


def _replace(file: Any, name: str, value: Any) -> None:
    """Another value in the place of an entry; none for None."""
    if name in file:
        del file[name]
    if value is not None:
        file[name] = value


def _to_group(file: Any, name: str) -> None:
    del file[name]
    file.create_group(name + "/a")


LIF = "node/nodes/lif"
MALFORMED: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "no node": (lambda file: _replace(file, "node", None), "", "no group 'node'"),
    "an array for a node": (lambda file: _replace(file, "node", 1.0), "", "no group 'node'"),
    "no graph": (lambda file: _replace(file, "node/type", "LIF"), "", "'LIF'"),
    "no type": (lambda file: _replace(file, "node/type", None), "", "None"),
    "an entry of a graph": (lambda file: _replace(file, "node/type_check", True), "", "'type_check'"),
    "nodes that are an array": (lambda file: _replace(file, "node/nodes", np.ones(2)), "", "array"),
    "a node that is an array": (lambda file: _replace(file, LIF, np.ones(2)), "node 'lif'", "no type"),
    "a node without a type": (lambda file: _replace(file, LIF + "/type", None), "node 'lif'", "no type"),
    "a type that is a number": (lambda file: _replace(file, LIF + "/type", 3), "node 'lif'", "no type"),
    "an unknown type": (lambda file: _replace(file, LIF + "/type", "LSTM"), "node 'lif'", "'LSTM'"),
    "a type that is no node": (lambda file: _replace(file, LIF + "/type", "read"), "node 'lif'", "'read'"),
    "a type that is a module": (lambda file: _replace(file, LIF + "/type", "ir"), "node 'lif'", "'ir'"),
    "an abstract type": (lambda file: _replace(file, LIF + "/type", "NIRNode"), "node 'lif'", "'NIRNode'"),
    "a missing parameter": (lambda file: _replace(file, LIF + "/tau", None), "node 'lif'", "tau"),
    "an unknown parameter": (lambda file: file.__setitem__(LIF + "/gamma", 1.0), "node 'lif'", "gamma"),
    "parameters of two shapes": (lambda file: _replace(file, LIF + "/tau", np.ones(3)), "node 'lif'", "LIF"),
    "edges that are numbers": (lambda file: _replace(file, "node/edges", np.ones((3, 2))), "", "1.0 -> 1.0"),
    "edges that are no pairs": (lambda file: _replace(file, "node/edges", np.ones((3, 3))), "", "(3, 3)"),
    "edges that are a text": (lambda file: _replace(file, "node/edges", "a -> b"), "", "shape ()"),
    "edges that are a group": (lambda file: _to_group(file, "node/edges"), "", "edges"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_refused_with_its_name_and_its_node(tmp_path: Path, case: str) -> None:
    edit, where, found = MALFORMED[case]
    error = refusal(edited(tmp_path / "graph.nir", edit))
    assert where in error.where
    assert found in error.found


def test_an_impossible_stride_is_an_error_of_its_node(tmp_path: Path) -> None:
    convolution = nir.Conv2d((4, 4), np.ones((1, 1, 2, 2)), 1, 0, 1, 1, np.zeros(1))
    path = tmp_path / "graph.nir"
    write_graph(path, chain([convolution], (1, 4, 4), (1, 3, 3)))
    with h5py.File(path, "r+") as file:
        _replace(file, "node/nodes/0/stride", 0)
    with pytest.raises(GraphError, match="node '0'"):
        nirmap.from_nir(path, dt=1e-4)


def test_a_graph_in_a_graph_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, chain([lif_graph()], (2,), names=["i", "inner", "o"]))
    with h5py.File(path, "r+") as file:
        _replace(file, "node/nodes/inner/nodes/lif/tau", None)
    error = refusal(path)
    assert error.where.endswith("node 'inner', node 'lif'")


def test_sub_graphs_deeper_than_any_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, lif_graph())
    file: Any
    with h5py.File(path, "r+") as file:
        place = "node/nodes"
        for _ in range(70):
            place += "/inner"
            file[place + "/type"] = "NIRGraph"
            place += "/nodes"
            file.create_group(place)
    assert "nested deeper" in refusal(path).found


HOSTILE: dict[str, tuple[Callable[[Any], None], str]] = {
    "itself": (lambda file: file.__setitem__("node/nodes/loop", file["node"]), "under another name"),
    "the same node twice": (
        lambda file: file.__setitem__("node/nodes/twin", file[LIF]),
        "under another name",
    ),
    "a soft link": (
        lambda file: file.__setitem__("node/nodes/soft", h5py.SoftLink("/node/nodes/lif")),
        "a link to another place",
    ),
    "a link to another file": (
        lambda file: file.__setitem__("node/nodes/far", h5py.ExternalLink("secret.h5", "/node")),
        "a link to another place",
    ),
    "numbers of another file": (
        lambda file: file.create_dataset(LIF + "/gamma", (4,), dtype="u1", external=[("secret.bin", 0, 4)]),
        "in another file",
    ),
    "an array that is larger than any memory": (
        lambda file: file.create_dataset(LIF + "/gamma", (1 << 45,), dtype="f8", chunks=(1 << 20,)),
        "of which 0 are stored",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_cannot_reach_out_of_itself_or_fill_the_memory(tmp_path: Path, case: str) -> None:
    edit, found = HOSTILE[case]
    error = refusal(edited(tmp_path / "graph.nir", edit))
    assert found in error.found


def test_weights_that_compress_well_are_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    write_graph(path, chain([nir.Linear(np.zeros((2000, 1000)))], (1000,), (2000,)))
    assert path.stat().st_size < 100_000
    read: Any = read_graph(path).nodes["0"]
    assert read.weight.shape == (2000, 1000)


def test_what_the_paper_recorded_is_read(nir_paper: Path) -> None:
    found = sorted(nir_paper.rglob("*.nir"))
    assert found
    for path in found:
        assert read_graph(path).nodes
