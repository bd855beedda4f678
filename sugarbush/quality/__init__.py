"""Looks at the fit of the generator, measures a release, and judges it."""
