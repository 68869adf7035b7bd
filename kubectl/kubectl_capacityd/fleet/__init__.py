"""Assesses the Nodes of a cluster, for the command fleet."""
