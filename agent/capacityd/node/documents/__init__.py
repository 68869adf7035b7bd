"""Converts between Kubernetes' JSON and capacityd's types, without requests and without reading files."""
