"""Runs the `sugarbush` command: `python -m sugarbush`."""

from sugarbush.cli.main import app

app()
