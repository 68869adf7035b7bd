"""Recording a machine, and replaying a recording."""
