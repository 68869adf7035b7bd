"""What a configuration can say: its settings, the types of TOML values, and what a detector declares about both."""
