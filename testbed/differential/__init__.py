"""Our constraints against kube-scheduler's: cases, an oracle that links its plugins, and the comparison."""
