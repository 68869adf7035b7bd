"""A reconcile pass: from readings, the memory of the last pass and the Node to a plan, and to a write of the Node.

reconcile.py and writing.py call the Node; all other modules are pure.
"""
