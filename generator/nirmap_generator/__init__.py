"""nirmap's generator."""
