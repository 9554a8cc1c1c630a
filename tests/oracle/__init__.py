"""An interpreter of NIR graphs in NumPy, and drawn graphs to hold other implementations against it.

Nothing in this package uses the product: a fault there cannot be repeated here by sharing code.
"""
