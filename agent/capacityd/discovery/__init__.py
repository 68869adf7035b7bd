"""Configuration -> a fork for each resource -> readings."""
