"""Contains the released side: its folders, its card and its verdict."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"folders": ("final_folder", "first_folder")})
