"""The only interface to this machine. Errors are HostErrors; no library's type or exception passes it."""
