"""The Kubernetes API as Stowplan uses it: how to reach it, requests, and what is kept in step with it."""
