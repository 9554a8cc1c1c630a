"""The two functions of nirtorch 2.6, with its arguments: dictionaries of the caller's own functions.

They are :func:`nirmap.from_nir` and :func:`nirmap.to_nir` under other names. What differs from nirtorch, where that is
wrong, is listed in ``docs/from-nirtorch.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import nir
import torch

from nirmap.errors import TraceError
from nirmap.files import read_graph
from nirmap.given import NodeMap
from nirmap.leaves import ModuleMap
from nirmap.network import Network
from nirmap.rebuilding import from_nir
from nirmap.subclasses import class_of
from nirmap.tracing import leaves_of, write

NodeFunction = Callable[[nir.NIRNode], torch.nn.Module | None]
ModuleFunction = Callable[[torch.nn.Module], nir.NIRNode | None]


def nir_to_torch(
    nir_node: nir.NIRNode | str | Path,
    node_map: NodeMap | NodeFunction,
    default_map: NodeMap | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    framework: str = "torch",
    dt: float | None = None,
) -> torch.fx.GraphModule:
    """Rebuilds a NIR graph with the caller's own modules, as ``nirtorch.nir_to_torch`` does.

    ``net(input, state=None)`` returns the output and the new state, as networks of :func:`nirmap.from_nir` do.

    Args:
        nir_node: a NIR graph or node, or the path of a ``.nir`` file.
        node_map: functions that build the module for a node type. A module whose ``forward`` has an argument ``state``
            is stateful and returns (output, state); any other one is called with its input alone. A single function
            for all nodes is the older form.
        default_map: such functions for the types that ``node_map`` does not have. What neither has is built from the
            table of ``framework``.
        device: device of all parameters and buffers.
        dtype: their floating dtype.
        framework: the framework of the modules that no function builds.
        dt: their time step in s; None for the one in the graph's metadata, else the framework's declared default.

    Returns:
        A :class:`nirmap.Network`; for a node that is no graph its module alone, which the annotation leaves out as
        nirtorch's does, so that callers of either need no cast.

    Raises:
        GraphError: the graph or file is malformed.
        UnsupportedNodeError: neither a dictionary nor the table has a module for a node.
        ConstraintError: the table has none that can express a node's parameters, or a function returned no module, or
            a recurrent layer of torch (``torch.nn.GRU``, ``GRUCell`` and so on), whose state has another name.
        MappingError: the framework is not installed or differs from its mappings.

    Warns:
        DeprecationWarning: ``node_map`` is a function.
        DelayWarning: a cycle has no stateful node, so the edge that leads back is delayed.
    """
    node = read_graph(nir_node) if isinstance(nir_node, str | Path) else nir_node
    if isinstance(node, nir.NIRGraph):
        graph = node
    elif isinstance(node, nir.Input | nir.Output):
        return cast("torch.fx.GraphModule", torch.nn.Identity())
    else:
        unknown: Any = None  # the type of the ends, which nir allows and does not annotate
        graph = nir.NIRGraph(
            {"input": nir.Input(unknown), "node": node, "output": nir.Output(unknown)},
            [("input", "node"), ("node", "output")],
            type_check=False,
        )
    functions = {**(default_map or {}), **_nodes_by_type(graph, node_map)}
    network = from_nir(graph, framework, dt=dt, dtype=dtype, device=device, node_map=functions)
    return network if graph is node else cast("torch.fx.GraphModule", network.get_submodule("node"))


def torch_to_nir(
    module: torch.nn.Module,
    module_map: ModuleMap | ModuleFunction,
    default_dict: ModuleMap | None = None,
    type_check: bool = True,
    stateful_modules: Collection[type[torch.nn.Module]] | None = None,
    concrete_args: Mapping[str, Any] | None = None,
    *,
    framework: str | None = None,
    dt: float | None = None,
    sample: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
) -> nir.NIRGraph:
    """Writes a torch module as a NIR graph with the caller's own nodes, as ``nirtorch.torch_to_nir`` does.

    Args:
        module: the network: a module whose ``forward`` is one time step.
        module_map: functions that make the node for a module class. A single function for all modules is the older
            form; modules for which it returns None are entered, or read by the table.
        default_dict: such functions for the classes that ``module_map`` does not have. What neither has is read by the
            table of ``framework``.
        type_check: False to leave out the types that do not follow from the nodes, and nir's check of them: for layers
            that NIR has no types for, such as a ``torch.nn.Linear`` along the last of several axes. Shapes that
            contradict each other whatever the axes before the last one are an error all the same.
        stateful_modules: classes in ``module_map`` that return (output, state), where their calls do not show it.
        concrete_args: values of arguments of ``forward``, which are then no inputs; None for one that is state.
        framework: the framework of the modules that no function maps; None for that of a rebuilt network, else
            ``torch``.
        dt: their time step in s; None for that of a rebuilt network, else the framework's declared default.
        sample: what ``forward`` takes (a tuple of several inputs), of which only the shape is used.

    Returns:
        The graph, with dt in its metadata; for a module that is a single node that node, which the annotation leaves
        out as nirtorch's does.

    Raises:
        TraceError: the module does something that NIR cannot say, or that is not known.
        ConstraintError: a module is set to something that NIR cannot express.
        GraphError: shapes contradict one another, or are not known and ``type_check`` is set.

    Warns:
        DeprecationWarning: ``module_map`` is a function.
        ReadBackWarning: nir can read the graph from a file only without its type check, which is wrong about it.
    """
    functions = {**(default_dict or {}), **_modules_by_class(module, module_map)}
    leaves = leaves_of(module, framework, dt, functions, stateful=stateful_modules or ())
    alone = not isinstance(module, Network) and leaves.is_leaf(module) and leaves.bypass(module) is None
    given = leaves.given(module)
    if given is not None:
        return _single(given(module), module)
    graph = write(module, leaves, sample, typed=type_check and not alone, concrete=concrete_args or {})
    if not alone:
        return graph
    (node,) = (node for node in graph.nodes.values() if not isinstance(node, nir.Input | nir.Output))
    return cast("nir.NIRGraph", node)


def _single(node: object, module: torch.nn.Module) -> nir.NIRGraph:
    """What the caller's function made of a module that is given alone."""
    if not isinstance(node, nir.NIRNode):
        where = f"module {class_of(module).__qualname__}"
        raise TraceError(
            where, f"the function in module_map returned {node!r}", "a node of nir", "return a node"
        )
    return cast("nir.NIRGraph", node)


def _nodes_by_type(graph: nir.NIRGraph, node_map: NodeMap | NodeFunction) -> NodeMap:
    """The caller's functions by node type, also where there is one for all."""
    if not callable(node_map):
        return node_map
    _warn(
        "nir_to_torch(graph, function): pass a dictionary of functions by node type, "
        "nir_to_torch(graph, {nir.LIF: function, nir.Affine: function})"
    )
    function: Any = node_map
    return {type(node): function for node in _nodes(graph)}


def _nodes(graph: nir.NIRGraph) -> Iterator[nir.NIRNode]:
    """The nodes for which modules are built, at any depth."""
    for node in graph.nodes.values():
        if not isinstance(node, nir.Input | nir.Output):
            yield node
        if isinstance(node, nir.NIRGraph):
            yield from _nodes(node)


def _modules_by_class(module: torch.nn.Module, module_map: ModuleMap | ModuleFunction) -> ModuleMap:
    """The caller's functions by module class, also where there is one for all.

    Which classes a function maps is found by calling it, once for each module: the network itself, if it has parts,
    containers, and the parts of a module that it maps are left out.
    """
    if not callable(module_map):
        return module_map
    _warn(
        "torch_to_nir(module, function): pass a dictionary of functions by module class, "
        "torch_to_nir(module, {torch.nn.Linear: function, Neuron: function})"
    )
    made: dict[torch.nn.Module, nir.NIRNode] = {}
    kinds: set[type[torch.nn.Module]] = set()
    containers = torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ModuleDict
    pending = [module]
    seen: set[torch.nn.Module] = set()
    while pending:
        part = pending.pop()
        if part in seen:
            continue
        seen.add(part)
        parts = list(part.children())
        is_entered = isinstance(part, containers) or (part is module and bool(parts))
        node = None if is_entered else module_map(part)
        if node is None:
            pending.extend(parts)
        else:
            made[part] = node
            kinds.add(class_of(part))
    lookup: Any = made.get
    return {kind: lookup for kind in kinds}  # noqa: C420  (fromkeys loses the type of the function)


def _warn(text: str) -> None:
    """Says what a mapping function is replaced with, at the line of the caller."""
    warnings.warn(text, DeprecationWarning, stacklevel=4)
