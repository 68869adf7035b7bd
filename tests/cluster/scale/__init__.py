"""Many Nodes, each with a real service, and random changes; the tests have a small run of it."""
