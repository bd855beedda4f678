"""Runs the `sugarbush` command: `python -m sugarbush`."""

from sugarbush.cli.main import app

if __name__ == "__main__":
    app()
