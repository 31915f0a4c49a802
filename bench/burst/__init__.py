"""The burst: what arrives at a GPU cluster whose load jumps 17-fold, from a production trace."""
