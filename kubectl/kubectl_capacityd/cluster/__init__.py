"""A cluster's Nodes and pods: from the API server with an operator's kubeconfig, or from a list that kubectl saved."""
