"""The machine's devices and the TOML for them, for the command devices."""
