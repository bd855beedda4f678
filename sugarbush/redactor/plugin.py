"""Registers the redactor as the entry point `learned` of the group `sugarbush.detectors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # slow imports
    from sugarbush.redactor.detector import LearnedDetector


class Learned:
    """The redactor of the default recipe, or a tuned redactor in a folder."""

    packages: ClassVar[tuple[tuple[str, str], ...]] = (("redaction", "faker"),)

    def open(self) -> LearnedDetector:
        """Open the redactor of the default recipe. Its first use on a machine trains it."""
        from sugarbush.redactor.cache import default_redactor

        return default_redactor()

    def open_folder(self, folder: Path) -> LearnedDetector:
        """Open the redactor that `train_redactor` wrote. Raises ParamsError for another folder."""
        from sugarbush.redactor.detector import LearnedDetector

        return LearnedDetector(folder)
