"""Reads and writes ``.nir`` files, with nir's own parser and errors that name the file.

A file is untrusted: before anything of it is read, a walk over its groups makes sure that it stays inside the file,
ends, and holds about as much as it says.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import nir
import numpy as np

from nirmap.errors import GraphError
from nirmap.structure import MAX_DEPTH

# Two groups for each level of sub-graphs, and some for metadata.
_MAX_GROUPS = 2 * MAX_DEPTH + 16
# A dataset may be this much larger than what is stored of it: gzip, which nir writes with, shrinks by 1032 at most.
_MAX_RATIO = 2000
_SMALL = 1 << 20
_GRAPH_ENTRIES = {"type", "nodes", "edges", "metadata"}
_MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def read_graph(path: str | Path) -> nir.NIRGraph:
    """The graph in a ``.nir`` file. Nothing is inferred or added; :func:`nirmap.from_nir` checks it.

    Args:
        path: an HDF5 file as ``nir.write`` makes it.

    Raises:
        GraphError: there is no such file, it is not a NIR file, it refers to other files or to itself, an array in it
            is much larger than what is stored of it, or a node in it is malformed.
    """
    import h5py
    from nir.serialization import hdf2dict

    where = f"file {str(path)!r}"
    if not Path(path).is_file():
        raise GraphError(where, "there is no such file", "a .nir file", "check the path")
    try:
        with h5py.File(path, "r") as file:
            _check_contents(file, where)
            if "node" not in file or not isinstance(file["node"], h5py.Group):
                raise GraphError(where, "it has no group 'node'", "an HDF5 file written by nir.write")
            data: dict[str, Any] = hdf2dict(file["node"])
    except GraphError:
        raise
    except _MALFORMED as error:
        raise GraphError(
            where, f"it cannot be read ({error})", "an HDF5 file written by nir.write"
        ) from error
    kind: object = data.get("type")
    if not isinstance(kind, str) or kind != "NIRGraph":
        raise GraphError(where, f"it holds a {kind!r}", "a NIRGraph", "wrap the node in a graph")
    return _graph(data, where, 0)


def read(path: str | Path) -> nir.NIRGraph:
    """The graph in a ``.nir`` file, nodes of extensions included.

    Args:
        path: an HDF5 file as ``nir.write`` or :func:`write` makes it.

    Raises:
        GraphError: there is no such file, it is not a NIR file, or a node in it is malformed or of an unknown type.
    """
    return read_graph(path)


def write(path: str | Path, graph: nir.NIRGraph) -> None:
    """Writes a graph to a ``.nir`` file, whole or not at all. nir itself reads it if no node is of an extension.

    Args:
        path: the file.
        graph: the graph.

    Raises:
        GraphError: what is in the graph cannot stand in an HDF5 file.
        OSError: the file cannot be created.
    """
    write_graph(path, graph)


def _check_contents(file: Any, where: str) -> None:
    """Holds every group and dataset of a file against what a NIR file may have; nothing is read.

    Raises:
        GraphError: a link leads out of its place, a group is in itself, groups are nested too deep, or an array is much
            larger than what is stored of it.
    """
    import h5py

    met: set[int] = set()
    pending: list[tuple[Any, str, int]] = [(file, "", 0)]
    while pending:
        group, path, depth = pending.pop()
        if depth > _MAX_GROUPS:
            raise GraphError(
                where, f"groups nested deeper than {_MAX_GROUPS}", f"at most {MAX_DEPTH} sub-graphs"
            )
        for name in group:
            place = f"{path}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise GraphError(where, f"{place!r} is a link to another place", "a group or an array itself")
            entry = group[name]
            address = int(getattr(h5py, "h5o").get_info(entry.id).addr)  # noqa: B009
            if address in met:
                raise GraphError(
                    where, f"{place!r} is also there under another name", "each group and array once"
                )
            met.add(address)
            if isinstance(entry, h5py.Group):
                pending.append((entry, place, depth + 1))
            elif isinstance(entry, h5py.Dataset):
                _check_dataset(entry, f"{where}, {place!r}")


def _check_dataset(dataset: Any, where: str) -> None:
    if dataset.is_virtual or dataset.external:
        raise GraphError(where, "its numbers are in another file", "an array that is in the file")
    size, stored = int(dataset.nbytes), int(dataset.id.get_storage_size())
    if size > _SMALL and size > _MAX_RATIO * stored:
        raise GraphError(
            where, f"an array of {size} bytes, of which {stored} are stored", "an array that is in the file"
        )


def _graph(data: Mapping[str, Any], where: str, depth: int) -> nir.NIRGraph:
    """A graph and its sub-graphs, none of them type-checked."""
    if depth > MAX_DEPTH:
        raise GraphError(where, f"sub-graphs nested deeper than {MAX_DEPTH}", "a flatter graph")
    unknown = sorted(data.keys() - _GRAPH_ENTRIES)
    if unknown:
        raise GraphError(where, f"a graph with the entry {unknown[0]!r}", ", ".join(sorted(_GRAPH_ENTRIES)))
    entries, metadata = data.get("nodes", {}), data.get("metadata", {})
    if not isinstance(entries, dict) or not isinstance(metadata, dict):
        raise GraphError(where, "its nodes or its metadata are an array", "groups", "write it with nir.write")
    nodes: dict[str, nir.NIRNode] = {}
    for name, entry in cast("dict[str, Any]", entries).items():
        place = f"{where}, node {name!r}"
        node = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if not isinstance(node.get("type"), str):
            raise GraphError(place, "it has no type", "a group with a text 'type'")
        nodes[name] = _graph(node, place, depth + 1) if node["type"] == "NIRGraph" else _node(node, place)
    edges = list(_edges(data.get("edges", ()), where))
    return nir.NIRGraph(nodes, edges, metadata=cast("dict[str, Any]", metadata), type_check=False)


def _edges(value: Any, where: str) -> Iterator[tuple[str, str]]:
    edges = np.asarray(value)
    if edges.size == 0:
        return
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise GraphError(where, f"edges of the shape {edges.shape}", "pairs of node names")
    for edge in edges.tolist():
        source, target = (
            name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in edge
        )
        if not isinstance(source, str) or not isinstance(target, str):
            raise GraphError(where, f"the edge {source!r} -> {target!r}", "pairs of node names")
        yield source, target


def _node(data: dict[str, Any], where: str) -> nir.NIRNode:
    known = _extension(data["type"]) or getattr(nir, data["type"], None)
    if not isinstance(known, type) or not issubclass(known, nir.NIRNode):
        raise GraphError(
            where,
            f"its type is {data['type']!r}",
            "a node type of nir, or of an extension that is installed",
            "install the package whose mappings declare it, or declare it (nirmap new neuron NAME)",
        )
    try:
        with np.errstate(all="ignore"):
            node = known.from_dict(data) if known is _extension(data["type"]) else nir.dict2NIRNode(data)
    except _MALFORMED as error:
        raise GraphError(
            where,
            f"nir cannot make a {data['type']!r} of it ({type(error).__name__}: {error})",
            "a well-formed node",
        ) from error
    return node


def _extension(name: str) -> type[nir.NIRNode] | None:
    """The class of a node that NIR does not have."""
    from nirmap.extension import ExtensionNode
    from nirmap.extensions import load_extensions
    from nirmap_registry.catalogue import PRIMITIVES

    load_extensions()
    primitive = PRIMITIVES.get(name)
    return primitive.node if primitive is not None and issubclass(primitive.node, ExtensionNode) else None


def write_graph(path: str | Path, graph: nir.NIRGraph) -> None:
    """Writes a graph to a ``.nir`` file, whole or not at all: a new file replaces an old one only when it is complete.

    A new file has the permissions that the umask gives, one that replaces another has those of the other.

    Raises:
        GraphError: a name of a node or of metadata cannot stand in an HDF5 file, or what is there cannot be stored.
        OSError: the file cannot be created.
    """
    where = f"file {str(path)!r}"
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".nirmap-{secrets.token_hex(8)}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        _write(temporary, graph, where)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, graph: nir.NIRGraph, where: str) -> None:
    for place, name, value in _entries(graph.to_dict()):
        # To HDF5 a slash separates groups, and a single dot is the group itself.
        if name in ("", ".") or "/" in name or "\0" in name:
            raise GraphError(where, f"the name {name!r}", "names that HDF5 can hold", "give it another name")
        if value is None:
            raise GraphError(f"{where}, {place!r}", f"{name} is None", "a value", f"set {name}")
    try:
        try:
            nir.write(path, graph)
        except TypeError:
            # A parameter without axes cannot be compressed.
            uncompressed: Any = None
            nir.write(path, graph, compression=uncompressed)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise GraphError(
            where, f"it cannot be written ({error})", "nodes and metadata made of numbers, texts and arrays"
        ) from error


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """All entries of nested dictionaries: the place of each, its key and its value."""
    pending: list[tuple[str, Mapping[str, Any]]] = [("", data)]
    while pending:
        place, entries = pending.pop()
        for name, entry in entries.items():
            yield place, str(name), entry
            if isinstance(entry, dict):
                pending.append((f"{place}/{name}", cast("dict[str, Any]", entry)))
