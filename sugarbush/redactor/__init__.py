"""The learned redactor: trains it, rewrites files with it, and registers it as a detector of crt.

This package is optional: no other module of Sugarbush imports it.
"""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.redactor.api import Redaction as Redaction
    from sugarbush.redactor.api import redact as redact
    from sugarbush.redactor.train import Recipe as Recipe
else:
    __getattr__ = lazy_names(__name__)
