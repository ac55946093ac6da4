"""The directional certifier, and how it plans."""
