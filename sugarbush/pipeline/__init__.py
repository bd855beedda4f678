"""Runs the stages of a project in order, by DVC, by a flow or in one process."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "flow": ("StageFailedError", "run_dvc"),
        "in_memory": ("corpus_of_project",),
        "opening": ("open_project",),
        "stages.pretrain": ("simulated",),
    },
)
