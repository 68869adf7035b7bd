"""What the machine has, for the command devices."""
