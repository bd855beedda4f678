"""Examples of methods that use public names only."""
