"""What a spike does to the membrane potential of a node.

NIR sets it to ``v_reset``. Most frameworks can also subtract the threshold, for which NIR has no word. A graph says so
in the metadata of a node, or of a graph for all nodes in it that do not say it themselves, under the key ``reset``:
``value``, as NIR, or ``subtract``, by which a spike lowers the potential by ``v_threshold - v_reset`` in its own step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import nir

from nirmap.choices import check_choice
from nirmap.errors import ConstraintError

Reset = Literal["value", "subtract"]
# Key of the reset in the metadata of a node or a graph.
RESET_KEY = "reset"


def check_reset(reset: object, where: str) -> Reset:
    """A reset that was asked for.

    Raises:
        ConstraintError: there is none of that name.
    """
    found: Reset = check_choice(reset, get_args(Reset), where)
    return found


def reset_of(metadata: Mapping[str, Any], around: Reset | None, where: str) -> Reset | None:
    """What a node or a graph says of its reset, or else what is said around it.

    Args:
        metadata: that of the node or the graph.
        around: what the graph around it says; None where nothing is said.
        where: the node or graph, for errors.

    Raises:
        ConstraintError: the entry is no reset.
    """
    if RESET_KEY not in metadata:
        return around
    return check_reset(metadata[RESET_KEY], f"{where}: metadata[{RESET_KEY!r}]")


def metadata_of(reset: Reset) -> dict[str, Any]:
    """What the metadata of a node say of its reset; nothing, where it is that of NIR."""
    return {} if reset == "value" else {RESET_KEY: reset}


def stating(graph: nir.NIRGraph, asked: Reset | None) -> nir.NIRGraph:
    """A graph whose metadata state the reset that is asked for; the graph itself where none is, or they do.

    Args:
        graph: the graph; it is not changed, and its nodes are shared.
        asked: the reset; None for the graph's own.

    Raises:
        ConstraintError: the metadata state another one, or none that there is.
    """
    stated = reset_of(graph.metadata, None, "the graph")
    if asked is None or stated == asked:
        return graph
    metadata = {**graph.metadata, RESET_KEY: wanted_reset(stated, asked, "reset")}
    return nir.NIRGraph(graph.nodes, graph.edges, metadata=metadata, type_check=False)


def wanted_reset(stated: Reset | None, asked: Reset | None, where: str) -> Reset:
    """The reset of a node: what the graph states, or else what the caller asks for, or else that of NIR.

    Raises:
        ConstraintError: the graph states another one than the caller asks for.
    """
    if stated is not None and asked is not None and stated != asked:
        raise ConstraintError(
            where,
            f"reset = {asked!r}, while the graph's metadata state {stated!r}",
            "the graph's own reset",
            f"leave reset out, or delete metadata[{RESET_KEY!r}] to run the neuron with another one",
        )
    return stated or asked or "value"
