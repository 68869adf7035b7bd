"""The values that pass between the stages, and the interfaces Host and Node. This package does no input or output."""
