"""Writes the release card, the public page, and the internal page, which is not DP."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "plots": ("interval",),
        "svg": (
            "Axis",
            "axis_bottom",
            "chart",
            "element",
            "group",
            "line",
            "marker",
            "series_styles",
            "short",
            "text",
        ),
        "templating": ("LOADER", "TEMPLATES", "inlined"),
    },
)
