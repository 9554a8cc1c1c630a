"""Inputs, outputs and chains, so that a test reads as the graph it is about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import nir
import numpy as np


def input_node(*shape: int) -> nir.Input:
    """An Input of the given shape."""
    return nir.Input({"input": np.array(shape)})


def output_node(*shape: int) -> nir.Output:
    """An Output of the given shape."""
    return nir.Output({"output": np.array(shape)})


def chain(
    nodes: Sequence[nir.NIRNode],
    shape: Sequence[int] = (1,),
    shape_after: Sequence[int] | None = None,
    *,
    names: Sequence[str] = (),
    type_check: bool = False,
) -> nir.NIRGraph:
    """An Input, the nodes, and an Output in a row.

    Args:
        nodes: between the Input and the Output.
        shape: of the Input.
        shape_after: of the Output, ``shape`` if left out.
        names: of all nodes in order; "input", "0", "1", ..., "output" if left out.
        type_check: whether `nir` checks, and completes, the types.
    """
    everything = [input_node(*shape), *nodes, output_node(*(shape if shape_after is None else shape_after))]
    named = names or ["input", *(str(index) for index in range(len(nodes))), "output"]
    return nir.NIRGraph(
        dict(zip(named, everything, strict=True)), list(pairwise(named)), type_check=type_check
    )
