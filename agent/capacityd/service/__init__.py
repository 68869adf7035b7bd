"""The resident process: it waits for events and starts a worker for each reconcile pass. Imports only linux/ and a few
modules of model/ that import little, such as messages and reasons."""
