"""The load and the cluster of the training comparison, fixed before any policy was tuned on them."""
