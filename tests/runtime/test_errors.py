"""Errors as values: if these fail, an error loses its parts on the way from a worker, or does not say what to do."""

from __future__ import annotations

import copy
import pickle

import pytest

from nirmap import errors
from nirmap.errors import NirmapError

CLASSES = [
    errors.NirmapError,
    errors.MappingError,
    errors.TraceError,
    errors.GraphError,
    errors.UnsupportedNodeError,
    errors.ConstraintError,
]
each_class = pytest.mark.parametrize("cls", CLASSES)


@each_class
def test_a_message_has_all_four_parts_and_the_parts_are_attributes(cls: type[NirmapError]) -> None:
    error = cls("node 'lif'", "tau = -1", "tau above 0", "correct the node")
    assert (error.where, error.found, error.expected, error.do) == (
        "node 'lif'",
        "tau = -1",
        "tau above 0",
        "correct the node",
    )
    assert str(error) == "node 'lif': tau = -1; expected tau above 0; correct the node"


@each_class
def test_parts_that_are_left_out_leave_no_trace(cls: type[NirmapError]) -> None:
    assert str(cls("graph", "it is empty")) == "graph: it is empty"
    assert str(cls("graph", "it is empty", do="add a node")) == "graph: it is empty; add a node"


@each_class
def test_it_survives_pickling_and_copying(cls: type[NirmapError]) -> None:
    error = cls("node 'lif'", "tau = -1", "tau above 0", "correct the node")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is cls
        assert vars(other) == vars(error)
        assert str(other) == str(error)


@each_class
def test_callers_that_catch_value_errors_catch_it(cls: type[NirmapError]) -> None:
    with pytest.raises(ValueError, match="found"):
        raise cls("where", "found")
    assert issubclass(cls, NirmapError)


def test_a_delay_warning_is_a_user_warning() -> None:
    assert issubclass(errors.DelayWarning, UserWarning)
