"""The service's child process that watches the Node, over one connection to the API server that stays open.

It only says that what a plan depends on has changed; a pass reads the Node. It runs as long as the service does, so it
imports little more than http.client, ssl and json: no dataclass, no Kubernetes client, no other HTTP library.
"""
