"""The audit: what each framework can express of NIR, found out by executing it.

Every primitive, and a few small networks, are drawn, built in a framework, stepped, and held against the oracle
(:mod:`nirmap.oracle`); and the other way round. Nothing here knows a framework: all follows from the registries.
"""
