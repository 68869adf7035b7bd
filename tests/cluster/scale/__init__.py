"""Many Nodes, each with a real service, and random changes: `make scale`, and a small run of it in the tests."""
