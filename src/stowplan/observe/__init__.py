"""What was seen and is kept: readings of the cluster, and the history of what ran."""
