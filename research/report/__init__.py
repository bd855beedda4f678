"""Pages that only research needs. They use the templates and charts of `sugarbush.report`."""
