"""`kubectl capacityd`: what an operator asks about the Nodes of a cluster. Uses modules of the agent."""
