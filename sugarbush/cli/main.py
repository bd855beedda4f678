"""Turn a private text corpus into a synthetic corpus under differential privacy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from sugarbush.cli import project_commands, result_commands
from sugarbush.cli.printing import warn
from sugarbush.closed_output import output_may_close
from sugarbush.errors import ParamsError
from sugarbush.registry import COMMANDS, load_plugin, plugin_names

_FIRST_PLUGINS = ("redact", "train-redactor", "label", "app")  # others follow by name


class Commands(TyperGroup):
    """Adds the commands of plug-ins. Prints a warning or a failure of any command as one line, and
    exits with its code."""

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_plugins()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def _add_plugins(self) -> None:
        """Add the commands that are entry points, before the groups of commands."""
        names = sorted(set(plugin_names(COMMANDS)) - set(self.commands), key=_position)
        if not names:
            return
        groups = {n: each for n, each in self.commands.items() if isinstance(each, TyperGroup)}
        for name in groups:
            del self.commands[name]
        for name in names:
            try:
                self.commands[name] = _command_of_plugin(name)
            except ParamsError as error:  # another package's command cannot be imported
                warn(str(error))
        self.commands.update(groups)

    def invoke(self, ctx: Any) -> Any:
        warnings.formatwarning = lambda message, *_, **__: f"sugarbush: {message}\n"
        with output_may_close():
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:  # the message of an error may quote a text
            if type(error).__module__.partition(".")[0] in {"typer", "click"}:
                raise
            from sugarbush.run.error_report import format_error

            message, code = format_error(error)
            warn(message)
            raise typer.Exit(code) from None


def _position(name: str) -> tuple[int, str]:
    first = _FIRST_PLUGINS.index(name) if name in _FIRST_PLUGINS else len(_FIRST_PLUGINS)
    return first, name


def _command_of_plugin(name: str) -> Any:
    """Return the command for a function with Typer's annotations."""
    plugin = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    plugin.command(name)(load_plugin(COMMANDS, name))
    return get_command(plugin)


app = typer.Typer(
    cls=Commands,
    name="sugarbush",
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
_BUILT_IN: dict[str, Callable[..., None]] = {
    "init": project_commands.init,
    "profile": project_commands.profile,
    "check": project_commands.check,
    "run": project_commands.run,
    "report": result_commands.report,
    "publish": result_commands.publish,
    "settings": result_commands.show_settings,
    "budget": project_commands.budget,
    "estimate": project_commands.estimate,
    "show": result_commands.show,
    "cache": result_commands.cache,
    "clean": result_commands.clean,
    "audit": result_commands.audit,
}
for _name, _command in _BUILT_IN.items():
    app.command(_name)(_command)
schema_app = typer.Typer(help="The schema: attributes and their public values.")
schema_app.command("draft")(project_commands.draft)
app.add_typer(schema_app, name="schema", no_args_is_help=True)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"sugarbush {version('sugarbush')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Turn a private text corpus into a synthetic corpus under differential privacy."""
