"""What an autoscaler needs to be told of the nodes of an empty group, for `template`."""
