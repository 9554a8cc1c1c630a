"""An interpreter of NIR graphs in plain NumPy float64: the reference that every framework is held against.

It imports nothing of the rest of nirmap, nor torch: a fault there cannot be repeated here by sharing code.
"""
