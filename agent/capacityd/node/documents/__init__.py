"""Converts between Kubernetes' JSON and our types. Pure."""
