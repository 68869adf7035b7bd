"""Reads the configured resources from the machine, each in a child process."""
