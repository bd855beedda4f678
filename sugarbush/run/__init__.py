"""Contains the settings of a project, and what a stage of it receives."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.run.context import Project as Project
    from sugarbush.run.error_report import run_with_error_report as run_with_error_report
    from sugarbush.run.settings import FILE as FILE
    from sugarbush.run.settings import ProjectSettings as ProjectSettings
    from sugarbush.run.settings import complete_fields as complete_fields
    from sugarbush.run.settings import load_params as load_params
    from sugarbush.run.settings import parse_params as parse_params
else:
    __getattr__ = lazy_names(__name__)
