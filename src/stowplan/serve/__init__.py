"""Long-running services: the scheduler with its ways to act, the extender, the admission webhook."""
