"""Reads and writes ``.nir`` files, with nir's own parser and errors that name the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nir

from nirmap.errors import GraphError

# Deepest nesting of sub-graphs that is read.
MAX_DEPTH = 64


def read_graph(path: str | Path) -> nir.NIRGraph:
    """The graph in a ``.nir`` file. Nothing is inferred or added; :func:`nirmap.from_nir` checks it.

    Args:
        path: an HDF5 file as ``nir.write`` makes it.

    Raises:
        GraphError: there is no such file, it is not a NIR file, or a node in it is malformed.
    """
    import h5py
    from nir.serialization import hdf2dict

    where = f"file {str(path)!r}"
    if not Path(path).is_file():
        raise GraphError(where, "there is no such file", "a .nir file")
    try:
        with h5py.File(path, "r") as file:
            data: dict[str, Any] = hdf2dict(file["node"])
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise GraphError(
            where, f"it cannot be read ({error})", "an HDF5 file written by nir.write"
        ) from error
    if data.get("type") != "NIRGraph":
        raise GraphError(where, f"it holds a {data.get('type')!r}", "a NIRGraph", "wrap the node in a graph")
    return _graph(data, where, 0)


def _graph(data: Mapping[str, Any], where: str, depth: int) -> nir.NIRGraph:
    """A graph and its sub-graphs, none of them type-checked."""
    if depth > MAX_DEPTH:
        raise GraphError(where, f"sub-graphs nested deeper than {MAX_DEPTH}", "a flatter graph")
    nodes: dict[str, nir.NIRNode] = {}
    for name, entry in data.get("nodes", {}).items():
        place = f"{where}, node {name!r}"
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise GraphError(place, "it has no type", "a group with an entry 'type'")
        nodes[name] = _graph(entry, place, depth + 1) if entry["type"] == "NIRGraph" else _node(entry, place)
    edges = [(_text(source), _text(target)) for source, target in data.get("edges", ())]
    return nir.NIRGraph(nodes, edges, metadata=data.get("metadata", {}), type_check=False)


def _node(data: dict[str, Any], where: str) -> nir.NIRNode:
    try:
        node: nir.NIRNode = nir.dict2NIRNode(data)
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise GraphError(
            where,
            f"nir cannot make a {data['type']!r} of it ({type(error).__name__}: {error})",
            "a well-formed node",
        ) from error
    return node


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def write_graph(path: str | Path, graph: nir.NIRGraph) -> None:
    """Writes a graph to a ``.nir`` file, whole or not at all: a new file replaces an old one only when it is complete."""
    import os
    import tempfile

    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        nir.write(temporary, graph)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
