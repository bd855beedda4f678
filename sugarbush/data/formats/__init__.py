"""The file formats of a corpus: one module per format, and a module for databases."""
