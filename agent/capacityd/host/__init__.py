"""The only interface to this machine. Errors are HostError; no library's type or exception comes through it."""
