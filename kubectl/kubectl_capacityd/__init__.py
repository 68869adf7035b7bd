"""`kubectl capacityd`: commands for operators, about the Nodes of a cluster. Uses modules of the agent."""
