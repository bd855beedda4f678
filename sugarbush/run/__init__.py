"""Contains the settings of a project, and what a stage of it receives."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "context": ("Project",),
        "error_report": ("run_with_error_report",),
        "settings": ("FILE", "ProjectSettings", "complete_fields", "load_params", "parse_params"),
    },
)
