"""What the tests share: machines, Nodes, worlds and the pages of the documentation."""
