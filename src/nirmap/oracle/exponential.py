"""The exact step of a neuron whose input is held during dt: the exponential of one matrix, in numbers.

The equations of a neuron, with its input x and the number 1 as further variables that stay as they are, are
``d/dt (i, v, x, 1) = M (i, v, x, 1)``, so a step multiplies by ``exp(M dt)``. This holds whatever the time constants
are to one another.
"""

from __future__ import annotations

from collections.abc import Callable

import nir
import numpy as np

from nirmap.oracle.spatial import Array

# exp(M) is a Taylor series up to a norm of 1/2, where the term of this order is below the rounding of float64.
_ORDER = 16
_NORM = 0.5


def propagator(node: nir.NIRNode, parameter: Callable[[str], Array], dt: float) -> Array:
    """What a step multiplies ``(i, v, x, 1)`` by, of shape (*shape, 4, 4); i stays 0 where a neuron has none.

    Args:
        node: an I, IF, LI, LIF, CubaLI or CubaLIF.
        parameter: the node's parameters by name, of one shape each.
        dt: time step in s.
    """
    r = parameter("r")
    matrix = np.zeros((*r.shape, 4, 4))
    if isinstance(node, (nir.I, nir.IF)):
        matrix[..., 1, 2] = r
        return exponential(matrix * dt)
    current_based = isinstance(node, (nir.CubaLI, nir.CubaLIF))
    tau = parameter("tau_mem" if current_based else "tau")
    matrix[..., 1, 1] = -1 / tau
    matrix[..., 1, 0 if current_based else 2] = r / tau
    matrix[..., 1, 3] = parameter("v_leak") / tau
    if current_based:
        tau_syn = parameter("tau_syn")
        matrix[..., 0, 0] = -1 / tau_syn
        matrix[..., 0, 2] = parameter("w_in") / tau_syn
    return exponential(matrix * dt)


def exponential(matrix: Array) -> Array:
    """The exponential of square matrices (..., n, n), by scaling and squaring.

    Moler and Van Loan, "Nineteen dubious ways to compute the exponential of a matrix, twenty-five years later", SIAM
    Review 45, 2003, method 3.
    """
    norm = np.abs(matrix).sum(axis=-1).max(initial=0)
    squarings = max(0, int(np.ceil(np.log2(norm / _NORM)))) if norm > 0 else 0
    scaled = matrix / 2**squarings
    identity = np.broadcast_to(np.eye(matrix.shape[-1]), matrix.shape)
    result = identity
    for order in range(_ORDER, 0, -1):
        result = identity + scaled @ result / order
    for _ in range(squarings):
        result = result @ result
    return result
