"""`sugarbush app`: its arguments.

This function is an entry point of the group `sugarbush.commands`. The help of every command reads
it, so the server is imported when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def open_app(
    folder: Annotated[Path, typer.Argument(help="A project, or a new folder.")] = Path(),
    *,
    open_page: Annotated[bool, typer.Option("--open", help="Open the form in a browser.")] = False,
) -> None:
    """Serve a form in the browser, for this machine alone: from a file to a published folder.

    The form writes the same files as the commands, and runs the same commands. Each button that
    charges says its epsilon and asks once. Ctrl-C ends the form.
    """
    from sugarbush.app.server import serve

    serve(folder, open_page=open_page)
