"""The only interface to this machine. All errors are HostErrors; no type or exception of a library leaves this
package."""
