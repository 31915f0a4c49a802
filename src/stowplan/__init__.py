"""Stowplan: places the tasks of cloud workflows on Kubernetes nodes by what the hardware is really doing."""

__version__ = "0.1.0"
