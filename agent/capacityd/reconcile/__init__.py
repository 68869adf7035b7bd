"""Turns readings and the Node's state into a plan, a JSON Patch, and a write. Only apply.py, writing.py,
attempt.py and machine_record.py have side effects."""
