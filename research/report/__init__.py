"""Pages that only research needs, on the templates and charts of `sugarbush.report`."""
