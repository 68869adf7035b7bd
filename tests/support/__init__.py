"""Shared parts of the tests: machines, Nodes, models of their surroundings, and the documentation's pages."""
