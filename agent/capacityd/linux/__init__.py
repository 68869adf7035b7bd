"""Interfaces of the operating system, without anything of capacityd. Errors are those of Python."""
