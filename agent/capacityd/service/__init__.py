"""The resident process: waits for events and starts a worker for each reconcile pass. Imports linux/ only."""
