"""The JSON of lists, Nodes, pods and NodeOverlays as types. Pure."""
