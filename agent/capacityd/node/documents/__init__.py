"""The JSON of Kubernetes as types: no other module reads a key of it. Pure."""
