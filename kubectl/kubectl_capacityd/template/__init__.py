"""What an autoscaler must know about a new node."""
