"""Records one step of a model with ``torch.fx``, including the state that goes from one step to the next.

State comes back from a model in a structure of its own: tuples, lists, dictionaries, named tuples, or attributes that a
forward assigns. So a model is recorded more than once. The first time, its state is None, and what it returns or
assigns shows the structure. Then, the state is that structure, with a placeholder for each entry, until no further
entries come to light; whatever the model returns in the place of an entry is what that entry will be in the next step.

In the end, the next call is recorded too (:mod:`nirmap.next_call`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import torch

from nirmap.arguments import Arguments, arguments_of
from nirmap.constants import Constants
from nirmap.entries import Shape
from nirmap.errors import NirmapError, TraceError
from nirmap.garbage import collecting_later
from nirmap.leaves import Leaves
from nirmap.loops import Calls, fold
from nirmap.next_call import check_next_call, differs, may_differ
from nirmap.step_tracer import Result, Slot, StepTracer, zeros_of_recorded_sizes
from nirmap.structures import Leaf, joined, outline, unchanged, values_of
from nirmap.wrapped import check_recordable


@dataclass
class Recording:
    """One recorded step.

    Attributes:
        graph: the calls, in order. The argument of its output is (results, entries): what is returned, and what each
            entry of the state becomes, or None.
        root: the module whose submodules are called.
        constants: tensors that are neither parameters nor buffers, by the target of their get_attr node, and those
            that modules keep as their state.
        entries: the number of the state entry for which a placeholder stands, by the placeholder's name.
        results: names and state entries of the results; the values are those in the graph.
        structured: the state entries that are parts of a structure, or of an attribute, so that their place says whose
            they are. An argument of its own may come back in any place.
        alone: whether the model is a leaf module, which is written as the node that it stands for.
        time_axes: the axis of time of each input over which the forward loops, by its name.
        first: the recording of the first step, where that is another one: its state is None.
    """

    graph: torch.fx.Graph
    root: torch.nn.Module
    constants: dict[str, torch.Tensor]
    entries: dict[str, int]
    results: list[Result]
    structured: frozenset[int] = frozenset()
    alone: bool = False
    time_axes: Mapping[str, int] = field(default_factory=dict[str, int])
    first: Recording | None = None

    @property
    def inputs(self) -> list[str]:
        """The names of the placeholders that are inputs."""
        return [
            node.name
            for node in self.graph.nodes
            if node.op == "placeholder" and node.name not in self.entries
        ]

    def of_one_step(self, samples: Sequence[Shape]) -> list[Shape]:
        """The shapes of one step of inputs over which the forward loops.

        Args:
            samples: the shapes of what forward takes, in the order of the inputs.

        Raises:
            TraceError: a sample has no axis of time and of a batch.
        """
        axes = [self.time_axes.get(name) for name in self.inputs]
        axes += [None] * (len(samples) - len(axes))
        return [_without(axis, shape) for axis, shape in zip(axes, samples, strict=False)]


def _without(axis: int | None, shape: Shape) -> Shape:
    """A shape without the axis of time, where there is one."""
    if axis is None:
        return shape
    if len(shape) < len(("time", "batch")):
        expected = "an axis of time, over which forward loops, and one of a batch"
        raise TraceError("sample", f"the shape {shape}", expected, "pass what forward takes")
    return (*shape[:axis], *shape[axis + 1 :])


@collecting_later()
def record(
    module: torch.nn.Module,
    leaves: Leaves,
    concrete: Mapping[str, Any] = MappingProxyType({}),
    samples: Sequence[Shape] = (),
) -> Recording:
    """Records one step of a model. It is left as it was, and none of its leaf modules is run.

    Args:
        module: the model.
        leaves: its leaf modules.
        concrete: values of arguments of ``forward``, which are then no inputs; None for one that is state.
        samples: the shapes of the inputs, all their axes, as far as they are known.

    Raises:
        TraceError: the model does what depends on data, or raises an error itself. The error names the module and the
            line of its source.
    """
    check_recordable(module)
    alone = leaves.is_leaf(module)
    root = torch.nn.Sequential(module) if alone else module
    arguments = arguments_of(root, concrete)
    plan: dict[Slot, Any] = {}
    try:
        tracer = _run(root, leaves, plan, arguments, samples)
    except TraceError as error:
        if not arguments.optional:
            raise
        # A state that has no None to begin with is taken apart as it is used.
        plan = {name: Leaf() for name in arguments.optional}
        try:
            tracer = _run(root, leaves, plan, arguments, samples)
        except TraceError:
            raise error from error.__cause__
    first, wanted = None, {**plan, **tracer.wanted()}
    if not plan and wanted and _begins_with_nothing(root, arguments, wanted):
        first = _recording(tracer, root, alone)
    # What goes from place to place in the state, as in a queue, comes to light step by step.
    while outline(wanted) != outline(plan):
        plan = wanted
        tracer = _run(root, leaves, plan, arguments, samples, is_planned=True)
        wanted = _further(plan, tracer.wanted())
    return _recording(tracer, root, alone, first)


def _further(plan: Mapping[Slot, Any], found: Mapping[Slot, Any]) -> dict[Slot, Any]:
    """The state that was planned, with what else turned out to change."""
    return {**found, **{slot: joined(held, found.get(slot, held)) for slot, held in plan.items()}}


def _begins_with_nothing(root: torch.nn.Module, arguments: Arguments, wanted: Mapping[Slot, Any]) -> bool:
    """Whether a model was recorded without state: that of its arguments None, that in attributes nothing or zeros."""
    if any(isinstance(slot, str) and slot not in arguments.optional for slot in wanted):
        return False
    kept = [getattr(root.get_submodule(slot[0]), slot[1], None) for slot in wanted if isinstance(slot, tuple)]
    return not any(bool(tensor.any()) for tensor in values_of(kept, torch.Tensor))


def _recording(
    tracer: StepTracer, root: torch.nn.Module, alone: bool, first: Recording | None = None
) -> Recording:
    """What a tracer recorded, with the loops over time steps folded."""
    plan = tracer.state.plan
    structured = {
        number
        for slot, numbers in tracer.state.numbers.items()
        for number in numbers
        if isinstance(slot, tuple) or not isinstance(plan[slot], Leaf)
    }
    folded = fold(tracer.graph, _calls(tracer))
    if folded is not None and len(_results(tracer.graph)) != len(tracer.results):
        tracer.results = [Result(None, None)]
    for name in () if folded is None else folded.entries:
        tracer.entries[name] = len(tracer.entries)
    return Recording(
        tracer.graph,
        root,
        {**tracer.constants.values, **tracer.constants.states},
        tracer.entries,
        tracer.results,
        frozenset(structured),
        alone,
        {} if folded is None else folded.axes,
        first,
    )


def _calls(tracer: StepTracer) -> Calls:
    """What a tracer knows of the calls that it recorded."""
    return Calls(tracer.returns_state, tracer.goes_on, tracer.check_state, tracer.is_zero, tracer.entries)


def _results(graph: torch.fx.Graph) -> tuple[Any, ...]:
    (output,) = (node for node in graph.nodes if node.op == "output")
    results, _ = cast("tuple[tuple[Any, ...], Any]", output.args[0])
    return results


def _run(
    root: torch.nn.Module,
    leaves: Leaves,
    plan: Mapping[Slot, Any],
    arguments: Arguments,
    samples: Sequence[Shape],
    is_planned: bool = False,
) -> StepTracer:
    """One recording, with the state that is planned; if that is all of it, the next call is held against it."""
    with unchanged(root, leaves.is_leaf):
        constants = Constants(root, leaves.kept_state, leaves.is_leaf)
        tracer = _traced(root, leaves, plan, arguments, samples, constants)
        wanted = _further(plan, tracer.wanted()) if is_planned else {**plan, **tracer.wanted()}
        if outline(wanted) == outline(plan) and may_differ(root, leaves):
            try:
                following = _traced(root, leaves, plan, arguments, samples, constants.anew())
            except TraceError as error:
                raise differs(None) from error
            check_next_call(tracer, following)
    return tracer


def _traced(
    root: torch.nn.Module,
    leaves: Leaves,
    plan: Mapping[Slot, Any],
    arguments: Arguments,
    samples: Sequence[Shape],
    constants: Constants,
) -> StepTracer:
    """A call of the model, which changes what it changes."""
    tracer = StepTracer(leaves, plan, arguments, samples, constants)
    with zeros_of_recorded_sizes(tracer):
        try:
            tracer.graph = tracer.trace(root)
        except NirmapError:
            raise
        except Exception as error:
            raise tracer.failure(root, error) from error
    return tracer
