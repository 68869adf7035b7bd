"""The resident process: it waits for events and starts a worker for each reconcile pass. Imports only linux/ and the
messages in model/."""
