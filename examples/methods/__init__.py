"""Each file is a method of the literature, as one function on public names."""
