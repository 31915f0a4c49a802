"""The scheduler's loop: pods that wait in, instructions to the cluster out."""
