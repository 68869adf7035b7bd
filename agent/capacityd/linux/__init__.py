"""Interfaces to the operating system, which know nothing of capacityd. They raise Python's own exceptions."""
