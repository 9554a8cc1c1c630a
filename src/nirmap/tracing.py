"""From torch to NIR: a module becomes a graph.

The module is traced with ``torch.fx``; the modules of the framework's table are leaves. The traced graph is then read
once, in order. What NIR cannot say is refused, never dropped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import nir
import torch

from nirmap.assembling import GraphUnderConstruction
from nirmap.cells import Cell
from nirmap.errors import NirmapError, TraceError
from nirmap.functions import FUNCTIONS, METHODS
from nirmap.leaves import Leaves, ModuleMap
from nirmap.network import NameOutputs, Network, PackState, UnpackState
from nirmap.registry import load_registry
from nirmap.report import Report
from nirmap.signals import Constant, NamedOutputs, Returned, Signal, StateParts, StateValue, Value
from nirmap_registry.rows import Function

DT_KEY = "dt"


def to_nir(
    module: torch.nn.Module,
    framework: str | None = None,
    *,
    dt: float | None = None,
    sample: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
    module_map: ModuleMap | None = None,
    path: str | Path | None = None,
) -> nir.NIRGraph:
    """Writes a torch module as a NIR graph. The module is not changed, and not run.

    Args:
        module: the network: a module whose ``forward`` is one time step, or a network from :func:`nirmap.from_nir`.
        framework: the framework of its neurons; None for that of a rebuilt network, else ``torch``.
        dt: time step in s; None for that of a rebuilt network, else the framework's declared default.
        sample: an input with one leading batch axis (a tuple of several), of which only the shape is used.
        module_map: functions that make the node for a module class; they take precedence over the table.
        path: where to write the graph as a ``.nir`` file as well.

    Returns:
        The graph, with every node's type, and dt in its metadata.

    Raises:
        TraceError: the module does something that NIR cannot say, or that is not known.
        ConstraintError: a module is set to something that NIR cannot express.
        GraphError: shapes contradict one another or are not known.
    """
    report: Report | None = module.meta.get("nirmap") if isinstance(module, torch.fx.GraphModule) else None
    registry = load_registry(framework or (report.framework if report else "torch"))
    step = dt if dt is not None else report.dt if report else registry.time_step
    if step is None or not step > 0:
        raise TraceError("dt", f"{dt!r}", "a time step above 0 in seconds")
    leaves = Leaves(registry, dict(module_map or {}), step)
    samples = (sample,) if isinstance(sample, torch.Tensor) else sample
    graph = _Reader(module, leaves).read([tuple(entry.shape[1:]) for entry in samples or ()])
    graph.metadata[DT_KEY] = step
    if path is not None:
        from nirmap.files import write_graph

        write_graph(path, graph)
    return graph


class _Tracer(torch.fx.Tracer):
    """Enters every module but the leaves, and remembers the user's source lines."""

    def __init__(self, leaves: Leaves) -> None:
        super().__init__()
        self.leaves = leaves
        self.record_stack_traces = True

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return self.leaves.is_leaf(m)


def _trace(module: torch.nn.Module, leaves: Leaves) -> torch.fx.Graph:
    """The traced graph; arguments whose default is None are None, the initial state."""
    if isinstance(module, Network):
        return module.graph
    parameters = inspect.signature(module.forward).parameters
    initial = {name: None for name, value in parameters.items() if value.default is None}
    root = module
    if leaves.is_leaf(module):
        root = torch.nn.Sequential(module)
        initial = {}
    try:
        return _Tracer(leaves).trace(root, concrete_args=initial or None)
    except NirmapError:
        raise
    except (
        torch.fx.proxy.TraceError,
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
        IndexError,
    ) as error:
        raise TraceError(
            f"module {type(module).__name__}",
            f"it cannot be traced ({type(error).__name__}: {error})",
            "a forward without branches or loops that depend on data",
            "write the branch as arithmetic, or move it into a module and pass a function for it in module_map",
        ) from error


class _Reader:
    """Reads a traced graph once, in order."""

    def __init__(self, module: torch.nn.Module, leaves: Leaves) -> None:
        self.root = (
            module
            if not leaves.is_leaf(module) or isinstance(module, Network)
            else torch.nn.Sequential(module)
        )
        self.traced = _trace(module, leaves)
        self.leaves = leaves
        report: Report | None = module.meta.get("nirmap") if isinstance(module, Network) else None
        self.report = report
        self.names = {safe: name for name, safe in report.identifiers.items()} if report else {}
        self.values: dict[torch.fx.Node, Value] = {}
        self.graph = GraphUnderConstruction()

    def read(self, shapes: list[tuple[int, ...]]) -> nir.NIRGraph:
        """The NIR graph; ``shapes`` are those of the inputs, without batch, as far as they are given."""
        for node in self.traced.nodes:
            self._node(node)
        return self.graph.finish(shapes)

    def _node(self, node: torch.fx.Node) -> None:
        where = self._where(node)
        if node.op == "placeholder":
            self._placeholder(node)
        elif node.op == "get_attr":
            self.values[node] = Constant(str(node.target), _attribute(self.root, str(node.target)))
        elif node.op == "call_module":
            self.values[node] = self._module(node, where)
        elif node.op == "output":
            self._output(node.args[0], where)
        elif getattr(node.target, "__name__", "") != "_assert_is_none":
            self.values[node] = self._function(node, where)

    def _where(self, node: torch.fx.Node) -> str:
        """The module path or function, and the user's source line."""
        names = {"call_module": "module", "call_function": "function", "call_method": "method"}
        text = getattr(node.target, "__name__", str(node.target))
        line = _user_line(node.stack_trace)
        place = f"{names.get(node.op, 'value')} {text!r}"
        if node.op == "call_module":
            kind = type(_attribute(self.root, str(node.target)))
            place += f" ({kind.__module__}.{kind.__qualname__})"
        return f"{place} at {line}" if line else place

    def _placeholder(self, node: torch.fx.Node) -> None:
        if self.report is not None and str(node.target) not in self.names:
            self.values[node] = StateValue()
            return
        if node.args and node.args[0] is None:
            self.values[node] = StateValue()
            return
        name = self.names.get(str(node.target), str(node.target))
        self.values[node] = Signal({self.graph.add_input(name): 1.0})

    # Modules

    def _module(self, node: torch.fx.Node, where: str) -> Value:
        target = str(node.target)
        module = _attribute(self.root, target)
        if isinstance(module, UnpackState):
            return StateParts(tuple(entry.name for entry in module.entries))
        if isinstance(module, PackState):
            return StateValue()
        if isinstance(module, NameOutputs):
            signals = [self._signal(cast("torch.fx.Node", entry), where) for entry in node.args]
            return NamedOutputs(dict(zip(module.names, signals, strict=True)))
        signal = self._module_input(node, where)
        bypassed = self.leaves.bypass(module)
        if bypassed is not None:
            for constraint in bypassed.reads_only_if:
                if not constraint.holds(module, self.leaves.dt):
                    raise TraceError(where, f"not {constraint.that}", constraint.because, constraint.do)
            return signal
        return self._add(module, self.names.get(target, target), signal, where)

    def _module_input(self, node: torch.fx.Node, where: str) -> Signal:
        """The one signal among a module's arguments; the others are state."""
        signals: list[Signal] = []
        for entry in [*node.args, *node.kwargs.values()]:
            value = self.values.get(entry) if isinstance(entry, torch.fx.Node) else None
            if isinstance(value, Returned):
                value = self._signal(cast("torch.fx.Node", entry), where)
            if isinstance(value, Signal):
                signals.append(value)
            elif entry is not None and not _is_state(entry, self.values):
                raise TraceError(
                    where, f"the argument {entry!r}", "one input, and state that modules returned"
                )
        if len(signals) != 1:
            raise TraceError(
                where, f"{len(signals)} inputs", "one input", "join them with + before the module"
            )
        return signals[0]

    def _add(self, module: torch.nn.Module, name: str, signal: Signal, where: str) -> Value:
        given = self.leaves.module_map.get(type(module))
        if given is not None:
            stateful = "state" in inspect.signature(module.forward).parameters
            added = self.graph.add_given(name, given(module), signal)
            return Returned(added, 0) if stateful else Signal({added: 1.0})
        if isinstance(module, Network):
            report = cast("Report", module.meta["nirmap"])
            inner = _Reader(module, self.leaves).read([])
            return Returned(self.graph.add_given(name, inner, signal), 0) if report else Signal({})
        row = (
            self.leaves.row_of_cell(module, where)
            if isinstance(module, Cell)
            else self.leaves.row_for(module, where)
        )
        primitive, values = self.leaves.read(module, row)
        added = self.graph.add_module(name, module, primitive, values, signal, row.state is not None, where)
        if row.state is None:
            return Signal({added: 1.0})
        index = 0
        if row.state.output is not None and not isinstance(module, Cell):
            index = 1 + [variable.kept_as for variable in row.state.variables].index(row.state.output)
        return Returned(added, index)

    # Functions

    def _function(self, node: torch.fx.Node, where: str) -> Value:
        table: dict[Any, Function] = METHODS if node.op == "call_method" else FUNCTIONS
        function = table.get(node.target)
        if function is None:
            raise TraceError(
                where,
                "a function that NIR has no node for",
                "one of " + ", ".join(sorted(entry.name for entry in table.values())),
                "move it into a module and pass a function for it in module_map",
            )
        handlers: dict[str, Callable[[torch.fx.Node, Function, str], Value]] = {
            "sum": self._sum,
            "item": self._item,
            "scale": self._scale,
            "bypass": lambda node, function, where: self._signal(cast("torch.fx.Node", node.args[0]), where),
            "flatten": self._flatten,
        }
        return handlers[function.means](node, function, where)

    def _signal(self, entry: Any, where: str) -> Signal:
        """The signal of an operand."""
        value = self.values.get(entry) if isinstance(entry, torch.fx.Node) else None
        if isinstance(value, Signal):
            return value
        if isinstance(value, Returned):
            raise TraceError(
                where,
                f"all that {value.node!r} returned",
                "its output alone",
                f"unpack it: output, state = {value.node}(...)",
            )
        shown = f"the parameter {value.name!r}" if isinstance(value, Constant) else repr(entry)
        raise TraceError(
            where, shown, "the output of a module", "NIR adds signals only; use a layer with a bias"
        )

    def _arguments(self, node: torch.fx.Node, function: Function, where: str) -> dict[str, Any]:
        """The further arguments of a call, by name."""
        arguments: dict[str, Any] = {
            **function.defaults,
            **dict(zip(function.parameters, node.args[1:], strict=False)),
        }
        for name, value in node.kwargs.items():
            if name not in function.parameters:
                raise TraceError(where, f"the argument {name!r}", "one of " + ", ".join(function.parameters))
            arguments[name] = value
        if len(node.args) - 1 > max(len(function.parameters), 1):
            raise TraceError(where, f"{len(node.args)} arguments", f"{1 + len(function.parameters)} at most")
        return arguments

    def _sum(self, node: torch.fx.Node, function: Function, where: str) -> Value:
        arguments = self._arguments(node, function, where) if function.parameters else {"other": node.args[1]}
        if node.args[0] == 0 and isinstance(node.args[0], int):  # sum([...]) starts at 0
            return self._signal(arguments["other"], where)
        if arguments["other"] == 0 and isinstance(arguments["other"], int):
            return self._signal(node.args[0], where)
        alpha = arguments.get("alpha", 1)
        if not isinstance(alpha, int | float):
            raise TraceError(where, f"alpha = {alpha!r}", "a number")
        return self._signal(node.args[0], where).plus(self._signal(arguments["other"], where), float(alpha))

    def _scale(self, node: torch.fx.Node, function: Function, where: str) -> Value:
        if function.factor is not None:
            return self._signal(node.args[0], where).times(function.factor)
        left, right = node.args[0], node.args[1] if len(node.args) > 1 else node.kwargs.get("other")
        if isinstance(left, int | float):
            left, right = right, left
        if isinstance(right, int | float):
            return self._signal(left, where).times(float(right))
        for signal, factor in ((left, right), (right, left)):
            value = self.values.get(factor) if isinstance(factor, torch.fx.Node) else None
            if isinstance(value, Constant):
                return self.graph.add_scale(value.name, value.value, self._signal(signal, where), where)
        raise TraceError(where, "a product of two signals", "a constant or a parameter as one factor")

    def _flatten(self, node: torch.fx.Node, function: Function, where: str) -> Value:
        arguments = self._arguments(node, function, where)
        module = torch.nn.Flatten(arguments["start_dim"], arguments["end_dim"])
        return self._add(module, node.name, self._signal(node.args[0], where), where)

    def _item(self, node: torch.fx.Node, function: Function, where: str) -> Value:
        value = self.values.get(cast("torch.fx.Node", node.args[0]))
        index = node.args[1]
        if isinstance(value, Returned) and isinstance(index, int):
            return Signal({value.node: 1.0}) if index == value.output_index else StateValue(value.node)
        if isinstance(value, StateParts) and isinstance(index, int):
            name = value.names[index // 2]
            return Signal({name: 1.0}, frozenset({name})) if index % 2 else StateValue(name)
        if isinstance(value, StateValue):
            return value
        raise TraceError(
            where, f"entry {index!r} of a signal", "a whole signal", "NIR has no node that selects"
        )

    # Result

    def _output(self, result: Any, where: str) -> None:
        value = self.values.get(result) if isinstance(result, torch.fx.Node) else None
        if isinstance(result, tuple | list):
            signals = [entry for entry in result if not _is_state(entry, self.values)]
            if self.report is not None:
                return self._output(result[0], where)
            if len(signals) == 1:
                return self._output(signals[0], where)
            for index, entry in enumerate(signals):
                self.graph.add_output(f"output_{index}", self._signal(entry, where))
            return None
        if isinstance(result, dict):
            for name, entry in cast("dict[str, Any]", result).items():
                self.graph.add_output(str(name), self._signal(entry, where))
            return None
        if isinstance(value, NamedOutputs):
            for name, signal in value.signals.items():
                self.graph.add_output(name, signal)
            return None
        if isinstance(value, Returned):
            value = Signal({value.node: 1.0}) if value.output_index == 0 else value
        name = self.report.outputs[0] if self.report else "output"
        self.graph.add_output(name, value if isinstance(value, Signal) else self._signal(result, where))
        return None


def _is_state(entry: Any, values: dict[torch.fx.Node, Value]) -> bool:
    """Whether a value is state (or a structure of state), or None."""
    if isinstance(entry, tuple | list):
        return all(_is_state(part, values) for part in cast("list[Any]", entry))
    if isinstance(entry, dict):
        return all(_is_state(part, values) for part in cast("dict[str, Any]", entry).values())
    return entry is None or (isinstance(entry, torch.fx.Node) and isinstance(values.get(entry), StateValue))


def _attribute(root: torch.nn.Module, path: str) -> Any:
    value: Any = root
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _user_line(trace: str | None) -> str:
    """``file:line`` of the innermost source line outside of torch."""
    if not trace:
        return ""
    inside = str(Path(torch.__file__).parent)
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    own = [line for line in lines if inside not in line]
    if not own:
        return ""
    parts = own[-1].split('"')
    return f"{Path(parts[1]).name}:{parts[2].split('line ')[1].split(',')[0]}"
