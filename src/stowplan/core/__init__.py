"""The decision core: no I/O, no clock, no global randomness.

The simulator, the live cluster, training and look-ahead drive the same code, so what is tried is what serves.
"""
