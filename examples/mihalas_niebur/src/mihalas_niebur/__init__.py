"""The neuron of Mihalas and Niebur, for nirmap. Everything else in this package is generated from ``neurons/``."""

from __future__ import annotations

from mihalas_niebur.nodes import MihalasNiebur

__all__ = ["MihalasNiebur"]
