"""The judge watches capacityd and its Node, and finds each broken promise.

It knows the promises of docs/explanation.md. It does not know how capacityd keeps them.
"""
