"""Checks of primitives that NIR does not have: whether all is said that a class, a module and a test are made from."""

from __future__ import annotations

import keyword
import re

from nirmap_generator.check import RESERVED
from nirmap_generator.model import Catalogue, Located, Parameter, Place, Primitive
from nirmap_generator.problems import Problems
from nirmap_generator.vocabulary import FUNCTIONS

# What the modules with the generated classes import, by these names.
_IMPORTED = frozenset({"ClassVar", "Equations", "ExtensionNode", "Mapping", "Neuron", "State"})
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
# Names of what the generated functions take, import or compute beside the quantities of the neuron.
_LOCAL = "after before exp_difference exprel input input_type metadata output_type self state super"
# Attributes of the generated classes, those that they inherit from torch.nn.Module and nir.NIRNode included.
_ATTRIBUTES = """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda defaults domains double
    dt dump_patches equations eval extra_repr fixed_names float forward from_dict get_buffer get_extra_state
    get_parameter get_submodule half ipu load_state_dict method modules mtia named_buffers named_children named_modules
    named_parameters parameter_names parameters register_backward_hook register_buffer register_forward_hook
    register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ reset set_extra_state set_submodule
    share_memory spike state_dict surrogate to to_dict to_empty train train_parameters training type xpu zero_grad
"""
TAKEN = RESERVED | frozenset(_LOCAL.split()) | frozenset(_ATTRIBUTES.split())


def name_problem(name: str) -> str:
    """What is wrong with the name of a node class; empty if nothing is."""
    if not _CLASS_NAME.fullmatch(name):
        return "the name of a class begins with a capital letter A to Z, and has letters, digits and _ only"
    if keyword.iskeyword(name):
        return "it is a word of Python's"
    if name in _IMPORTED:
        return "the generated modules use this name for something else"
    return ""


def is_nameable(primitive: Primitive) -> bool:
    """Whether Python can have a class of this name, with quantities of these names."""
    quantities = (*primitive.parameters, *primitive.state)
    return not name_problem(primitive.name) and not any(map(keyword.iskeyword, quantities))


def check_extensions(catalogue: Catalogue, problems: Problems) -> None:
    """Whether everything that a class, a module and a test are made from is said."""
    for primitive in catalogue.primitives.values():
        if primitive.name not in catalogue.unreadable:
            if primitive.is_extension:
                _check_primitive(primitive, problems)
            _check_functions(primitive, problems)


def _check_primitive(primitive: Primitive, problems: Problems) -> None:
    place = primitive.place
    problem = name_problem(primitive.name)
    if problem:
        found = f"the name {primitive.name!r}"
        problems.add(place.problem(found, "the name of a class, as in AdLIF", problem))
    if primitive.shape != "elementwise":
        found, do = f"shape: {primitive.shape}", "each neuron has an input and an output of its own"
        problems.add(place.problem(found, "shape: elementwise", do))
    if primitive.output is None:
        do = "add output: spike, or a formula, such as output: v"
        problems.add(place.problem("no output", "what leaves the neuron", do))
    if not primitive.source:
        do = "add source: with a paper, a book or a page"
        problems.add(place.problem("no source", "where the equations are from", do))
    _check_typical_input(primitive, problems)
    for name, parameter in primitive.parameters.items():
        _check_parameter(parameter, place / "parameters" / name, problems)
    for name in primitive.state:
        here = place / "state" / name
        _check_name(name, here, problems)
        if name in primitive.parameters:
            do = "rename one of them"
            problems.add(
                here.problem(f"a state variable {name!r} beside a parameter {name!r}", "two names", do)
            )
        if name not in primitive.dynamics:
            do = f"add it; {name}: 0 for a variable that only a spike changes"
            problems.add(here.problem("no equation", f"d/dt {name} under dynamics", do))


def _check_typical_input(primitive: Primitive, problems: Problems) -> None:
    do = "give the lowest and the highest input at which it works, for its tests"
    if primitive.typical_input is None:
        problems.add(primitive.place.problem("no typical_input", "a range, such as [0, 2]", do))
        return
    low, high = primitive.typical_input
    if not low < high:
        place = primitive.place / "typical_input"
        problems.add(place.problem(f"[{low:g}, {high:g}]", "a range, such as [0, 2]", do))


def _check_parameter(parameter: Parameter, place: Place, problems: Problems) -> None:
    _check_name(parameter.name, place, problems)
    if parameter.kind != "neuron":
        do = "a neuron has no parameters of another kind"
        problems.add(place.problem(f"kind: {parameter.kind}", "kind: neuron, one number for each neuron", do))
    if parameter.default is None:
        problems.add(place.problem("no default", "a typical value", "give the one of the source"))


def _check_name(name: str, place: Place, problems: Problems) -> None:
    """Quantities become arguments, attributes and variables in Python."""
    if keyword.iskeyword(name):
        problems.add(
            place.problem(f"the name {name!r}", "another one: it is a word of Python's", "rename it")
        )
    elif name in TAKEN:
        do = "rename it, here and in the equations"
        problems.add(place.problem(f"the name {name!r}", "another one: it is taken", do))


def _check_functions(primitive: Primitive, problems: Problems) -> None:
    """Equations call only what tensors have; the output of NIR's own nodes may call more."""
    equations: list[Located] = [*primitive.dynamics.values(), *primitive.reset.values()]
    equations += primitive.reset_by_subtraction.values()
    others = (primitive.spike, primitive.output if primitive.is_extension else None)
    equations += [located for located in others if located is not None]
    known = sorted(name for name, function in FUNCTIONS.items() if function.torch is not None)
    for located in equations:
        for name in sorted(located.expression.functions):
            if FUNCTIONS[name].torch is None:
                do = "say it with these"
                problems.add(located.place.problem(f"{name}()", "one of " + ", ".join(known), do))
