"""From the configuration to the readings: a child process for each resource."""
