"""Parameters of nodes: what is wrong here is a weight that changes with the file's, or a NaN in the user's network."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import nir
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nirmap.errors import GraphError
from nirmap.parameters import as_array, as_integers, as_padding, common_shape, neuron_parameters, shape_of

WHERE = "node 'lif'"

NUMBERS: dict[str, Any] = {
    "int": 2,
    "float": 2.0,
    "0-d": np.array(2.0),
    "NumPy scalar": np.float32(2.0),
    "integer array": np.array([2, 2], dtype=np.int8),
    "unsigned": np.array([2, 2], dtype=np.uint64),
    "half": np.array([2, 2], dtype=np.float16),
    "long double": np.array([2, 2], dtype=np.longdouble),
    "tuple": (2.0, 2.0),
    "list": [[2, 2], [2, 2]],
    "big endian": np.array([2.0, 2.0], dtype=">f4"),
    "reversed view": np.array([2.0, 2.0, 2.0])[::-1],
    "tensor": torch.tensor([2.0, 2.0]),
    "0-d tensor": torch.tensor(2),
    "parameter": torch.nn.Parameter(torch.tensor([2.0, 2.0])),
    "bfloat16": torch.tensor([2.0, 2.0], dtype=torch.bfloat16, requires_grad=True),
    "float8": torch.tensor([2.0, 2.0]).to(torch.float8_e5m2),
    "negated view": torch.tensor([-2.0, -2.0])._neg_view(),
}


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, None])
def test_every_form_of_a_number_becomes_a_plain_array(value: Any, dtype: Any) -> None:
    array = as_array(value, where=WHERE, parameter="tau", dtype=dtype)
    assert type(array) is np.ndarray
    assert array.shape == tuple(np.shape(value if not isinstance(value, torch.Tensor) else value.detach()))
    assert (array == 2).all()
    if dtype is not None:
        assert array.dtype == dtype
    assert array.dtype.isnative
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert np.array_equal(np.asarray(torch.as_tensor(array)), array)


def test_an_array_without_a_wanted_dtype_keeps_its_own() -> None:
    for dtype in (np.float16, np.float32, np.float64, np.int32):
        assert as_array(np.ones(2, dtype), where=WHERE, parameter="weight", dtype=None).dtype == dtype
    bfloat = as_array(torch.ones(2, dtype=torch.bfloat16), where=WHERE, parameter="weight", dtype=None)
    assert bfloat.dtype == np.float32


def test_the_result_shares_no_memory_with_the_node() -> None:
    """Else training the rebuilt network would change the user's graph."""
    for source in (np.ones(3), torch.ones(3, dtype=torch.float64)):
        copied = as_array(source, where=WHERE, parameter="weight")
        copied += 1
        assert np.array_equal(np.asarray(source), np.ones(3))


REFUSED: dict[str, tuple[Any, str]] = {
    "None": (None, "object"),
    "object": (np.array([1, None], dtype=object), "object"),
    "huge integer": (10**400, "object"),
    "complex": (1j, "complex"),
    "complex tensor": (torch.tensor([1j]), "complex"),
    "truth value": (True, "bool"),
    "truth values": (torch.tensor([True]), "bool"),
    "text": ("1.0", "str"),
    "bytes": (b"1.0", "bytes"),
    "dates": (np.array(["2024-01-01"], dtype="M8[D]"), "date"),
    "ragged": ([[1.0, 2.0], [3.0]], "list"),
    "sparse": (torch.eye(2).to_sparse(), "Tensor"),
    "no data": (torch.empty(2, device="meta"), "Tensor"),
    "masked": (np.ma.MaskedArray([1.0, 2.0], mask=[False, True]), "masked"),
    "NaN": (np.array([[1.0, 2.0], [np.nan, 4.0]]), r"tau\[1, 0\] = nan"),
    "infinity": (float("-inf"), "tau = -inf"),
    "NaN tensor": (torch.tensor([float("nan")]), r"tau\[0\] = nan"),
}


@pytest.mark.parametrize(("value", "found"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_real_number_is_refused_with_node_and_parameter(value: Any, found: str) -> None:
    with pytest.raises(GraphError, match=rf"(?s)node 'lif': .*tau.*{found}|node 'lif': {found}") as caught:
        as_array(value, where=WHERE, parameter="tau")
    assert "tau" in str(caught.value)


def test_a_number_that_only_the_wanted_dtype_cannot_hold_is_refused() -> None:
    with pytest.raises(GraphError, match="tau = inf as float32"):
        as_array(1e300, where=WHERE, parameter="tau", dtype=np.float32)


@pytest.mark.parametrize(
    "value",
    [
        3,
        3.0,
        np.int64(3),
        np.array(3),
        np.array([3]),
        (3,),
        [3, 3],
        np.array([3.0, 3.0]),
        torch.tensor([3, 3]),
    ],
)
def test_integers_come_one_for_each_axis(value: Any) -> None:
    integers = as_integers(value, 2, where=WHERE, parameter="stride", minimum=1)
    assert integers == (3, 3)
    assert all(type(number) is int for number in integers)


def test_integers_may_be_negative_where_no_minimum_is_set() -> None:
    assert as_integers(np.int64(-1), 1, where=WHERE, parameter="end_dim") == (-1,)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1.5, "stride = 1.5"),
        ((1, 0), "stride = 0"),
        (-1, "stride = -1"),
        (1e300, r"stride = 1e\+300"),
        ((1, 2, 3), r"the shape \(3,\)"),
        ((), r"the shape \(0,\)"),
        ([[1, 2]], r"the shape \(1, 2\)"),
        ("same", "str"),
        (True, "bool"),
        (None, "object"),
        (float("nan"), "nan"),
    ],
)
def test_what_is_not_one_integer_for_each_axis_is_refused(value: Any, found: str) -> None:
    with pytest.raises(GraphError, match=f"node 'conv': .*{found}.*expected"):
        as_integers(value, 2, where="node 'conv'", parameter="stride", minimum=1)


@pytest.mark.parametrize("word", ["same", b"same", np.str_("same"), np.bytes_(b"same"), np.array("same")])
def test_a_padding_word_is_plain_text_also_from_a_file(word: Any) -> None:
    padding = as_padding(word, 2, where=WHERE, parameter="padding")
    assert padding == "same"
    assert type(padding) is str


def test_a_padding_may_be_numbers() -> None:
    assert as_padding((0, 2), 2, where=WHERE, parameter="padding") == (0, 2)
    assert as_padding(np.array(1), 2, where=WHERE, parameter="padding") == (1, 1)


@pytest.mark.parametrize("value", ["full", b"\xff", -1, (1, 2, 3), 0.5])
def test_another_padding_is_refused(value: Any) -> None:
    with pytest.raises(GraphError, match="node 'conv': padding"):
        as_padding(value, 2, where="node 'conv'", parameter="padding")


NAMES = ("tau", "r", "v_leak", "v_threshold", "v_reset")


def lif(**changes: Any) -> nir.LIF:
    node = nir.LIF(tau=np.ones(3), r=np.ones(3), v_leak=np.ones(3), v_threshold=np.ones(3))
    for name, value in changes.items():
        setattr(node, name, value)
    return node


def test_the_parameters_of_a_neuron_get_one_shape() -> None:
    node = lif(tau=2.0, r=np.array([3.0]), v_leak=torch.full((1, 1), 4.0), v_threshold=(5, 6, 7))
    parameters = neuron_parameters(node, NAMES)
    assert {name: array.tolist() for name, array in parameters.items()} == {
        "tau": [2, 2, 2],
        "r": [3, 3, 3],
        "v_leak": [4, 4, 4],
        "v_threshold": [5, 6, 7],
        "v_reset": [0, 0, 0],
    }
    for array in parameters.values():
        assert array.dtype == np.float64
        array[0] = 9.0
    assert parameters["tau"].tolist() == [9, 2, 2]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,)])
def test_single_numbers_keep_their_shape(shape: tuple[int, ...]) -> None:
    node = lif(**{name: np.ones(shape) for name in NAMES})
    assert {array.shape for array in neuron_parameters(node, NAMES).values()} == {shape}


def test_parameters_that_do_not_fit_are_named_with_their_shapes() -> None:
    with pytest.raises(
        GraphError, match=r"node 'lif': v_reset has the shape \(4,\), and tau has the shape \(5,\)"
    ):
        neuron_parameters(
            lif(tau=np.ones(5), r=1.0, v_leak=1.0, v_threshold=1.0, v_reset=np.ones(4)), NAMES, where=WHERE
        )


def test_two_small_parameters_cannot_ask_for_a_large_array() -> None:
    with pytest.raises(GraphError, match=r"\(1, 1000000\)"):
        neuron_parameters(lif(tau=np.ones((1_000_000, 1)), r=np.ones((1, 1_000_000)), v_leak=1.0), NAMES)


def test_a_parameter_that_is_missing_or_none_is_an_error() -> None:
    with pytest.raises(GraphError, match="a LIF node: it has no tau_syn"):
        neuron_parameters(lif(), ["tau_syn"])
    with pytest.raises(GraphError, match="node 'lif': v_reset is a NoneType"):
        neuron_parameters(lif(v_reset=None), NAMES, where=WHERE)


@given(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), st.data())
def test_the_common_shape_is_the_one_that_numpy_broadcasts_to(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    others = data.draw(st.lists(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), max_size=3))
    shapes = {f"p{index}": one for index, one in enumerate([shape, *others])}
    larger = [one for one in shapes.values() if np.prod(one) != 1] or list(shapes.values())
    try:
        expected = np.broadcast_shapes(*larger)
    except ValueError:
        expected = None
    if expected in larger:
        assert common_shape(shapes, where=WHERE) == expected
    else:
        with pytest.raises(GraphError, match=r"p\d has the shape .* p\d has the shape"):
            common_shape(shapes, where=WHERE)


@pytest.mark.parametrize("value", [2.0, (1, 2), np.ones((2, 3)), torch.ones(4, requires_grad=True)])
def test_a_shape_is_read_without_a_copy(value: Any) -> None:
    expected = {float: (), tuple: (2,), np.ndarray: (2, 3), torch.Tensor: (4,)}[type(value)]
    assert shape_of(value) == expected
