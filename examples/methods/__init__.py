"""Each file is a method of the literature, on public names alone."""
