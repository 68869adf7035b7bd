"""Records a machine, and replays a recording."""
