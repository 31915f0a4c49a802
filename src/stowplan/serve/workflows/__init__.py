"""Live workflows: how far each has come, how long its tasks will take, and what ran, into the history."""
