"""The service's short-lived child: it checks the configuration, or makes one reconcile pass."""
