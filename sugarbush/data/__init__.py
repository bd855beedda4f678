"""Schema, reading, records, the split, and the private store."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.data.reading import digest_of_files as digest_of_files
    from sugarbush.data.reading import is_missing as is_missing
    from sugarbush.data.reading import read_rows as read_rows
else:
    __getattr__ = lazy_names(__name__)
