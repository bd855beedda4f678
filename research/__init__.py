"""Experiments on public data, through the library's public functions."""

import flows  # noqa: F401  sets what Prefect reads when it is imported
