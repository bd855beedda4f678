"""Private Evolution on text: first candidates, private votes, selection and variations."""
