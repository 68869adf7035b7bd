"""Prints results: text for people, and JSON for programs."""
