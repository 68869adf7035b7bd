"""Prints results for people: lines, tables, plans, explanations; and JSON for programs."""
