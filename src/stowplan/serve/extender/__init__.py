"""The HTTP extender of kube-scheduler: Stowplan scores the nodes, kube-scheduler decides and binds."""
