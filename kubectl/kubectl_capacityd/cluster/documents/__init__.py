"""The JSON of lists, Nodes and pods as types."""
