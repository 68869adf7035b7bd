"""The resident process, which waits for events and starts a worker for each reconcile pass.

It imports only linux/ and a few small modules of model/, such as messages and reasons.
"""
