"""Schema, reading, records, the split, and the private store."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"reading": ("digest_of_files", "is_missing", "read_rows")})
