"""The service's child process that watches the Node, over one open connection to the API server.

The watcher only reports that something that a plan depends on has changed. Then a pass reads the Node. The watcher runs
as long as the service, so it imports little more than http.client, ssl and json. It imports no dataclasses, no
Kubernetes client and no other HTTP library.
"""
