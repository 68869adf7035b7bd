"""A reconcile pass: makes a plan from the readings, the Node and the memory of the last pass, and writes the plan.

Only reconcile.py and writing.py send requests. The other modules only compute.
"""
