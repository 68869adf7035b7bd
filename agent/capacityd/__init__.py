"""capacityd publishes a machine's static hardware as extended resources of its own Kubernetes Node."""

__version__ = "0.1.0"
