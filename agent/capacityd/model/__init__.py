"""The values that pass between the stages, and the interfaces Host and Node. Nothing here reads, writes or decides."""
