"""The contention model: who slows whom, and by how much."""
