"""The `sugarbush` command."""
