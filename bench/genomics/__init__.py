"""The load and the clusters of the genomics comparison, fixed before any policy was tuned on them."""
