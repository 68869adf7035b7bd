"""What an autoscaler must be told about the nodes of an empty group, for `template`."""
