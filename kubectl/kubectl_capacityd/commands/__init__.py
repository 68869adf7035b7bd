"""The commands, and their output."""
