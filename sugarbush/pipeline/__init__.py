"""Runs the stages of a project in order, by DVC, by a flow or in one process."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.pipeline.flow import StageFailedError as StageFailedError
    from sugarbush.pipeline.flow import run_dvc as run_dvc
    from sugarbush.pipeline.in_memory import corpus_of_project as corpus_of_project
    from sugarbush.pipeline.opening import open_project as open_project
    from sugarbush.pipeline.stages.pretrain import simulated as simulated
else:
    __getattr__ = lazy_names(__name__)
