"""What a conversion did, node by node. It is attached to the result as ``net.meta["nirmap"]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nirmap.resets import Reset


@dataclass(frozen=True)
class NodeReport:
    """How one node was converted.

    Attributes:
        node: the primitive, or ``NIRGraph``.
        module: dotted path of the module that stands for it.
        how: ``native``; ``normal form`` (native, with the input scaled or the state shifted); ``rewritten`` (as
            several modules); ``fallback`` (the built-in module); ``given`` (by the caller's dictionary); ``graph`` (a
            sub-graph).
        source: where the mapping is declared.
        rules: names of the rewrites, the first applied to the node, the others to its parts.
        because: why the framework has no module that expresses the node itself, for ``rewritten`` and ``fallback``.
        before: the node's parameters.
        after: the parameters that the module was built from; of a rewritten node those of its parts, as
            ``part.parameter``.
        reset: what a spike does to the membrane potential: ``value``, or ``subtract``.
    """

    node: str
    module: str
    how: Literal["native", "normal form", "rewritten", "fallback", "given", "graph"]
    source: str = ""
    rules: tuple[str, ...] = ()
    because: str = ""
    before: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    after: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    reset: Reset = "value"


@dataclass(frozen=True)
class Report:
    """What :func:`nirmap.from_nir` did.

    Attributes:
        framework: the framework asked for.
        dt: time step in s.
        nodes: each node's report, by its NIR name.
        delayed: the edges that carry the value of the step before.
        identifiers: the safe identifier of each node, by its NIR name; submodules go by it.
        inputs: names of the Input nodes, in the order of the arguments.
        outputs: names of the Output nodes, in the order of the results.
        shapes: shape of each input, without batch, as far as the graph tells it.
        graphs: reports of the sub-graphs.
    """

    framework: str
    dt: float
    nodes: Mapping[str, NodeReport] = field(default_factory=dict[str, NodeReport])
    delayed: tuple[tuple[str, str], ...] = ()
    identifiers: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    graphs: Mapping[str, Report] = field(default_factory=dict[str, "Report"])
