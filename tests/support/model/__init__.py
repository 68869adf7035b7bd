"""A simulated world around the real program: a machine, its API server with the Node, and all that happens to them.

Time is a number that the model increases. Files are real, in a temporary folder.
"""
