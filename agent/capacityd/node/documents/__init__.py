"""Kubernetes' JSON as types: no other module reads its keys. Pure."""
