"""The schema of a configuration: settings, types of TOML values, and the declarations of detectors."""
