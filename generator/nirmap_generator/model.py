"""What the YAML files say, as frozen data: one class for each kind of entry.

The classes mirror the keys of the files (``mappings/README.md`` explains them); each entry keeps its place for
messages. :mod:`nirmap_generator.parsing` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nirmap_generator.expressions import Expression
from nirmap_generator.load import Document
from nirmap_generator.problems import Problem, shown_path

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """Where an entry stands: the document and the path in it."""

    document: Document
    path: Path

    def __truediv__(self, key: str | int) -> Place:
        return Place(self.document, (*self.path, key))

    def problem(self, found: str, expected: str, do: str = "") -> Problem:
        """A problem at this place."""
        line, column = self.document.position(self.path)
        return Problem(self.document.file, line, column, shown_path(self.path), found, expected, do)


@dataclass(frozen=True)
class Located:
    """An expression and the place where it stands."""

    expression: Expression
    place: Place


@dataclass(frozen=True)
class Parameter:
    """One parameter of a primitive."""

    name: str
    kind: str
    description: str
    unit: str = ""
    domain: Located | None = None
    default: float | None = None
    axes: int = 0
    minimum: int | None = None
    whole_steps: bool = False


@dataclass(frozen=True)
class StateVariable:
    """One state variable of a primitive; its value before the first step is a formula of the parameters."""

    name: str
    unit: str
    description: str
    initial: Located


@dataclass(frozen=True)
class AffineMap:
    """``value = shift + scale * value``; None stands for 0 and 1."""

    shift: Located | None = None
    scale: Located | None = None


@dataclass(frozen=True)
class Equivalence:
    """A family of nodes with the same behaviour."""

    free: Mapping[str, float]
    inverse: Mapping[str, Located]
    input: Located
    offset: Located | None
    state: Mapping[str, AffineMap]
    output: AffineMap | None
    parameters: Mapping[str, Located]
    place: Place


@dataclass(frozen=True)
class Primitive:
    """One primitive of the catalogue."""

    name: str
    description: str
    shape: str
    parameters: Mapping[str, Parameter]
    state: Mapping[str, StateVariable]
    dynamics: Mapping[str, Located]
    spike: Located | None
    reset: Mapping[str, Located]
    reset_by_subtraction: Mapping[str, Located]
    output: Located | None
    equivalence: Equivalence | None
    place: Place
    input_unit: str = ""
    output_unit: str = ""
    source: str = ""
    typical_input: tuple[float, float] | None = None
    is_extension: bool = False

    @property
    def declared(self) -> list[str]:
        """The parameters that a mapping speaks of: all but the inferred shapes."""
        return [name for name, parameter in self.parameters.items() if parameter.kind != "shape"]


@dataclass(frozen=True)
class Catalogue:
    """All primitives, those of nir before the extensions, and the versions of nir that they hold for.

    ``unreadable`` names the primitives in which an expression did not parse: of them only the parameters are known.
    """

    nir: str
    primitives: Mapping[str, Primitive]
    structure: Mapping[str, str]
    document: Document
    unreadable: frozenset[str] = frozenset()
    extensions: tuple[Document, ...] = ()

    @property
    def documents(self) -> tuple[Document, ...]:
        """The files that declare primitives."""
        return (self.document, *self.extensions)


@dataclass(frozen=True)
class Constraint:
    """What has to hold, why, and what to do where it does not."""

    that: Located
    because: str
    do: str


@dataclass(frozen=True)
class ClassReference:
    """A class, or a function, that is itself an argument."""

    path: str
    place: Place

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Record:
    """A record, or an object of another class, that is itself a constructor argument."""

    call: str
    arguments: Mapping[str, Located | ClassReference]
    place: Place


@dataclass(frozen=True)
class Variable:
    """How a module keeps one state variable of the node: ``kept = times * value``."""

    name: str
    kept_as: str
    times: Located | None
    read_from: str | None = None
    entries: str | None = None


@dataclass(frozen=True)
class LaterReset:
    """By how much a module lowers its potential at the beginning of a step, and above which."""

    above: Located
    by: Located


@dataclass(frozen=True)
class State:
    """How state goes in and out of a module."""

    call: str
    argument: str | None
    variables: tuple[Variable, ...]
    record: str | None
    hides: tuple[str, ...]
    output: str | None
    zeroed: tuple[str, ...]
    returns: tuple[str, ...]
    time_axis: int | None
    spread_by: str | None = None
    reset_in_next_step: LaterReset | None = None
    alone_if: Located | None = None


@dataclass(frozen=True)
class Member:
    """One node of the small graph that a module is."""

    name: str
    node: str
    place: Place


@dataclass(frozen=True)
class SubGraph:
    """The small graph that a module is: its nodes, and its edges, which begin at ``input`` and end at ``output``."""

    name: str
    members: tuple[Member, ...]
    edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Row:
    """One module that stands for one node, or for a small graph.

    For a graph, ``node`` is NIRGraph, and parameters, free variables and state variables go by ``member.name``.
    """

    node: str
    module: str
    discretisation: str
    state: State | None
    requires: tuple[Constraint, ...]
    normal_form: Mapping[str, Located]
    build: Mapping[str, Located | Record | ClassReference]
    assign: Mapping[str, Located]
    kept_in: tuple[str, ...]
    read: Mapping[str, Located]
    reads_only_if: tuple[Constraint, ...]
    holds: Mapping[str, Located]
    ignores: Mapping[str, str]
    not_built: str
    not_read: str
    reset: str
    place: Place
    graph: SubGraph | None = None

    @property
    def class_name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


@dataclass(frozen=True)
class Bypassed:
    """A module that only hands its input on, and may join batch and time into one axis, or split them."""

    module: str
    reads_only_if: tuple[Constraint, ...]
    place: Place
    joins_time: int | None = None
    splits_time: int | None = None


@dataclass(frozen=True)
class Folded:
    """A module that multiplies each channel by a number and adds one, as the layer before it can do by itself."""

    module: str
    scale: Located
    shift: Located
    reads_only_if: tuple[Constraint, ...]
    place: Place


@dataclass(frozen=True)
class Container:
    """A module that only arranges others: what it runs for each time step, or nothing, if its forward is recorded."""

    module: str
    each_step: str | None
    time_axis: int | None
    returns_records: bool
    place: Place


@dataclass(frozen=True)
class Sequences:
    """When a module takes a sequence of time steps, and where its axis of time is."""

    that: Located
    time_axis: int


@dataclass(frozen=True)
class Framework:
    """One file of mappings."""

    name: str
    description: str
    distribution: str
    versions: str
    imports: tuple[str, ...]
    time_step: float | None
    includes: tuple[str, ...]
    rows: tuple[Row, ...]
    not_mapped: Mapping[str, str]
    bypassed: tuple[Bypassed, ...]
    folded: tuple[Folded, ...]
    document: Document
    graphs: tuple[Row, ...] = ()
    containers: tuple[Container, ...] = ()
    sequences: Sequences | None = None

    @property
    def without_node(self) -> tuple[Bypassed | Folded, ...]:
        """The modules that leave no node of their own."""
        return (*self.bypassed, *self.folded)

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """The rows for nodes, and those for graphs."""
        return (*self.rows, *self.graphs)


@dataclass(frozen=True)
class Function:
    """What one traced function or method means."""

    function: str | None
    method: str | None
    means: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, float | None]
    factor: float | None
    module: str
    attributes: Mapping[str, Located]
    dtype: str
    place: Place
