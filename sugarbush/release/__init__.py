"""Contains the released side: its folders, its charges, and what its card states."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.release.folders import final_folder as final_folder
    from sugarbush.release.folders import first_folder as first_folder
else:
    __getattr__ = lazy_names(__name__)
