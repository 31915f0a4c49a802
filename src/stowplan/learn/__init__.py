"""Learning: the network in PyTorch, its training, and the release that serves. Needs the extra `learn`."""
