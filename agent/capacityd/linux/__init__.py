"""Interfaces to the operating system, independent of the rest of capacityd. They raise Python's own exceptions."""
