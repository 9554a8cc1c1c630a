"""Drawn graphs and inputs, with which the product is held against the interpreter in `nirmap.oracle`.

Nothing in this package uses the rest of the product.
"""
