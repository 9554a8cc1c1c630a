"""Nodes that bring their equations, in the oracle. If these fail, what extensions are held against is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import nir
import numpy as np

from nirmap.extension import Equations, ExtensionNode
from nirmap.oracle.interpreter import simulate
from oracle.building import chain


@dataclass(eq=False)
class Tiring(ExtensionNode):
    """A node whose threshold rises by 1 with each of its spikes."""

    v_threshold: np.ndarray | None = None

    equations: ClassVar[Equations] = Equations(
        state={"a": "0"},
        dynamics={},
        spike="input > v_threshold + a",
        reset={"a": "a + 1"},
        reset_by_subtraction={},
        output="spike",
    )
    defaults: ClassVar[Mapping[str, float]] = {"v_threshold": 1.0}


def test_a_threshold_that_moves_is_that_of_each_sample() -> None:
    """One sample fires and tires; the other one, which is quiet at first, is as fresh as it was."""
    graph: nir.NIRGraph = chain([Tiring(v_threshold=np.ones(1))], (1,))
    inputs = np.array([[1.5, 0.0], [1.5, 0.0], [1.5, 1.5], [2.5, 1.5]])[..., np.newaxis]
    spikes = simulate(graph, inputs, 1e-3).outputs["output"][..., 0]
    np.testing.assert_array_equal(spikes, [[1, 0], [0, 0], [0, 1], [1, 0]])
