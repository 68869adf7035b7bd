"""The machine's devices and the TOML that matches them, for the command devices."""
