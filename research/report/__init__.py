"""Pages for research only, with the templates and charts of `sugarbush.report`."""
