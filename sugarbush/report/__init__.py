"""Writes the release card, the public page, and the internal page, which is not DP."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.report.plots import interval as interval
    from sugarbush.report.svg import Axis as Axis
    from sugarbush.report.svg import axis_bottom as axis_bottom
    from sugarbush.report.svg import chart as chart
    from sugarbush.report.svg import element as element
    from sugarbush.report.svg import group as group
    from sugarbush.report.svg import line as line
    from sugarbush.report.svg import marker as marker
    from sugarbush.report.svg import series_styles as series_styles
    from sugarbush.report.svg import short as short
    from sugarbush.report.svg import text as text
    from sugarbush.report.templating import LOADER as LOADER
    from sugarbush.report.templating import TEMPLATES as TEMPLATES
    from sugarbush.report.templating import inlined as inlined
else:
    __getattr__ = lazy_names(__name__)
