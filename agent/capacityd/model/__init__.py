"""The values that pass between the stages, and the interfaces Host and Node."""
