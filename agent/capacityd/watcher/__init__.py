"""The service's child process that watches the Node, over one open connection to the API server.

The watcher reports when a part of the Node changes that a plan depends on. Then the service starts a reconcile pass,
which reads the Node. The watcher runs as long as the service, so it imports little more than http.client, ssl and json.
It imports no dataclasses, no Kubernetes client and no other HTTP library.
"""
