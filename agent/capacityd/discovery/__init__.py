"""From the configuration to the readings: a fork for each resource."""
