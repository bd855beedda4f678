"""The learned redactor: trains it, rewrites files with it, and registers it as a detector of crt.

This package is optional: no other module of Sugarbush imports it.
"""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "api": ("Redaction", "redact"),
        "train": ("Recipe",),
    },
)
