"""The interface to Kubernetes: this machine's Node, on the API server (api_node) or in a file (file_node).

All errors are NodeErrors. Types and exceptions of libraries stay inside this package. Only client imports the libraries
for requests, because their import takes longer than a request.
"""
