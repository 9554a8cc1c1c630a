"""The reference modules: one for each primitive that torch.nn has no layer for. They need nothing but torch.

All are generated from the equations of the catalogue.
"""

from __future__ import annotations

from nirmap_registry.neurons import IF, LI, LIF, CubaLI, CubaLIF, Delay, I, Scale, Threshold

__all__ = ["IF", "LI", "LIF", "CubaLI", "CubaLIF", "Delay", "I", "Scale", "Threshold"]
