"""The only interface to this machine. All errors are HostErrors. No type or exception of a library leaves this
package."""
