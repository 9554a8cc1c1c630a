"""The errors of nirmap. Each is a ``ValueError`` too, so that existing callers can keep catching that.

A message names the place (file and line, node, or module path), what was found there, what was expected, and what to
do next. The four parts are attributes as well, so that a program can show them in its own way.
"""

from __future__ import annotations


class NirmapError(ValueError):
    """Base class of every error that nirmap raises on purpose.

    Attributes:
        where: the place: ``node 'lif1'``, ``module 'encoder.0' (snntorch.Leaky)``, ``model.py:12``.
        found: what stands there.
        expected: what would have been right, or an empty string.
        do: what to do next, or an empty string.
    """

    def __init__(self, where: str, found: str, expected: str = "", do: str = "") -> None:
        self.where = where
        self.found = found
        self.expected = expected
        self.do = do
        parts = [f"{where}: {found}"]
        if expected:
            parts.append(f"expected {expected}")
        if do:
            parts.append(do)
        super().__init__("; ".join(parts))

    def __reduce__(self) -> tuple[type[NirmapError], tuple[str, str, str, str]]:
        return type(self), (self.where, self.found, self.expected, self.do)


class MappingError(NirmapError):
    """A declaration, or a registry generated from it, does not fit the framework that it speaks of."""


class TraceError(NirmapError):
    """A torch module cannot be written as a NIR graph."""


class GraphError(NirmapError):
    """A NIR graph or file is malformed: its structure, its shapes or its parameters."""


class UnsupportedNodeError(NirmapError):
    """A framework has no module that stands for a node (or NIR no node that stands for a module)."""


class ConstraintError(NirmapError):
    """A node's parameter, or a module's setting, cannot be expressed on the other side."""


class DelayWarning(UserWarning):
    """A cycle without a stateful node was broken at the edge that leads back."""


class ReadBackWarning(UserWarning):
    """A graph is right, and nir is wrong about its types when it reads it from a file with its type check on."""
