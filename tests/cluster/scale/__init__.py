"""Many Nodes, each with a real service, under random changes. The tests contain a small run."""
