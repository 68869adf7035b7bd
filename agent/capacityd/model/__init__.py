"""The values that flow, and the two interfaces: Host and Node. Nothing here reads, writes or decides."""
