"""Readings and the Node -> plan -> JSON Patch -> written. Pure, but for apply.py and machine_record.py."""
