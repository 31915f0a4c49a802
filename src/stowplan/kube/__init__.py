"""The Kubernetes layer: translation of API objects, and (later) the API client."""
