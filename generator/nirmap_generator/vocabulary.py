"""The words of the expression language: its functions, and the kinds of value that it tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

# What is known of a value before it is computed. ``number`` may be an array, with one number for each neuron;
# ``scalar`` is a single number; ``any`` is whatever a name stands for.
Kind = Literal["any", "number", "scalar", "condition", "text", "none", "tuple"]
# What a function accepts. An ``object`` is passed on as a module holds it, also where numbers become arrays.
Argument = Literal["number", "condition", "object"]


@dataclass(frozen=True)
class Function:
    """One function of the language.

    Attributes:
        name: how the mappings call it.
        arguments: what it takes, one entry for each positional argument.
        python: how generated code calls it: a name, or an expression in which ``{0}``, ``{1}``, ... stand for the
            arguments. None for a function that only describes, and that generated code never calls.
        description: what it gives.
        returns: the kind of its value.
        torch: how the step of a neuron calls it, on tensors; None for a function that equations cannot have.
    """

    name: str
    arguments: tuple[Argument, ...]
    python: str | None
    description: str
    returns: Kind = "number"
    torch: str | None = None

    @property
    def arity(self) -> int:
        """The number of arguments, all of which have to be given."""
        return len(self.arguments)


_ROWS = (
    # Elementwise on numbers.
    Function("exp", ("number",), "np.exp", "e to the power of x", torch="torch.exp"),
    Function("log", ("number",), "np.log", "natural logarithm", torch="torch.log"),
    Function("sqrt", ("number",), "np.sqrt", "square root", torch="torch.sqrt"),
    Function("abs", ("number",), "np.abs", "absolute value", torch="torch.abs"),
    Function("minimum", ("number", "number"), "np.minimum", "the smaller one"),
    Function("maximum", ("number", "number"), "np.maximum", "the larger one"),
    Function(
        "where",
        ("condition", "number", "number"),
        "rows.where",
        "the second where the first holds, else the third",
        torch="torch.where",
    ),
    Function(
        "next_above", ("number",), "to.next_above", "next representable number above, in the caller's dtype"
    ),
    Function(
        "next_below",
        ("object",),
        "rows.next_below",
        "next representable number below, in the dtype of the module's tensor",
    ),
    # New arrays of the shape of another one. A full array is always of floating type: in one of integers, 0.5 is 0.
    Function("zeros_like", ("number",), "np.zeros_like", "zeros of the same shape", torch="torch.zeros_like"),
    Function("ones_like", ("number",), "np.ones_like", "ones of the same shape", torch="torch.ones_like"),
    Function(
        "full_like",
        ("number", "number"),
        "np.full_like({0}, {1}, dtype=np.float64)",
        "the second, in the first's shape",
    ),
    Function("nearest", ("number",), "np.rint", "the nearest whole numbers"),
    Function("transpose", ("number",), "np.transpose", "axes in reverse order"),
    Function(
        "diagonal", ("number",), "np.diag", "a matrix with a vector on its diagonal, or a matrix's diagonal"
    ),
    # Questions about arrays.
    Function("all", ("condition",), "bool(np.all({0}))", "whether it holds everywhere", "condition"),
    Function("any", ("condition",), "bool(np.any({0}))", "whether it holds anywhere", "condition"),
    Function(
        "is_uniform", ("number",), "np.unique({0}).size == 1", "whether all entries are equal", "condition"
    ),
    Function("size", ("number", "number"), "{0}.shape[{1}]", "length of an axis", "scalar"),
    Function("ndim", ("number",), "{0}.ndim", "number of axes", "scalar"),
    # Conversions.
    Function(
        "tensor", ("number",), "to.tensor", "a torch tensor in the caller's dtype and on the caller's device"
    ),
    Function("number", ("number",), "rows.number", "the one number of a uniform array, as float", "scalar"),
    Function("integer", ("number",), "int", "a single integer", "scalar"),
    Function("integers", ("object",), "rows.integers", "a tuple of integers", "tuple"),
    Function("pair", ("object",), "rows.pair", "(n, n) for a single integer n, a tuple as it is", "tuple"),
    Function("text", ("object",), "str", "a text", "text"),
    Function(
        "name_of",
        ("object",),
        "rows.name_of",
        "the name of a function or class, or of an object's class",
        "text",
    ),
    Function(
        "bias_or_zeros", ("object", "object"), "rows.bias_or_zeros", "the bias, or zeros, one for each output"
    ),
    # In the catalogue's equations only.
    Function("delayed", ("number", "number"), None, "the first, as it was the second (in s) ago"),
    Function("before", ("number",), None, "a state variable, as it was before the step", torch="before"),
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType({row.name: row for row in _ROWS})
