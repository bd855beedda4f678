"""Contains the project, its settings, and the stages with their inputs and outputs."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "entry_point": ("run_with_error_report",),
        "flow": ("StageFailedError", "run_dvc"),
        "in_memory": ("corpus_of_project",),
        "project": ("Project",),
        "project_in_folder": ("open_project",),
        "released": ("final_folder", "first_folder"),
        "settings": ("FILE", "ProjectSettings", "complete_fields", "load_params", "parse_params"),
        "stages.pretrain": ("simulated",),
    },
)
