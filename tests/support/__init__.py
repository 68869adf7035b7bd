"""Shared parts of the tests: made-up machines and Nodes, fake servers, a simulated world, and the pages."""
