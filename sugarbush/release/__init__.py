"""Contains the released side: its folders, its charges, and what its card states."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"folders": ("final_folder", "first_folder")})
