"""Checks every command and every name of `sugarbush` that the documentation prints.

Nothing runs here. A command must parse: `sugarbush` with its own parser, `dvc` with DVC's. A module
of `python -m` and a target of `make` must exist. tests/unit/test_docs.py runs the Python blocks.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from dvc.cli import DvcParserError
from dvc.cli.parser import get_main_parser

import sugarbush as sb
from sugarbush.cli.main import app
from sugarbush.run.settings import default_fields
from tests.settings import ROOT
from tests.unit.test_docs import blocks

PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        ROOT / "sugarbush/template/README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
USAGE_ERROR = typer.BadParameter.__base__  # typer has its own copy of click
SHELLS = {"sh", "bash", "shell", "console"}
# Programs that are not checked, and why nothing can be checked here.
OTHER_PROGRAMS = {
    **dict.fromkeys(("cd", "echo", "export", "git", "mkdir", "tar", "umask"), "of every system"),
    "dask": "of the package distributed, which is optional",
    "sudo": "administers PostgreSQL on the user's machine",
    "uv": "another installer",
}
PREFECT = {
    ("server", "start"),
    ("work-pool", "create"),
    ("--no-prompt", "deploy"),
    ("worker", "start"),
    ("deployment", "run"),
}
NOT_ON_A_REGISTRY = re.compile(r"pip install[^`\n#]*\bsugarbush\b(?!/)")


class Command(NamedTuple):
    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def commands_of(page: Path) -> Iterator[Command]:
    """Yield the commands of the shell blocks of a page, without variables and redirections."""
    name = page.relative_to(ROOT).as_posix()
    for block in blocks(page):
        if block.language in SHELLS:
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from (Command(name, words) for words in split(line))


def split(line: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of a line of a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";&|"):
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words:
                yield tuple(words)
            words = []
        else:
            words.append(word)


COMMANDS = [command for page in PAGES for command in commands_of(page)]
PYTHON = [
    (page.relative_to(ROOT).as_posix(), block.text)
    for page in PAGES
    for block in blocks(page)
    if block.language == "python"
]


def parse_sugarbush(words: tuple[str, ...]) -> None:
    """Parse a command with the parser of the program."""
    command: Any = typer.main.get_command(app)
    rest, parent = list(words), None
    while hasattr(command, "commands"):
        context = command.make_context(command.name, rest, parent=parent)
        rest = [*context._protected_args, *context.args]
        _, command, rest = command.resolve_command(context, rest)
        parent = context
    command.make_context(command.name, rest, parent=parent)


def has_setting(key: str) -> bool:
    fields: Any = default_fields()
    for part in key.split("."):
        if not isinstance(fields, dict) or part not in fields:
            return False
        fields = fields[part]
    return True


def settings_of(words: tuple[str, ...], *options: str) -> list[str]:
    return [after.partition("=")[0] for before, after in pairwise(words) if before in options]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_printed_command_exists(command: Command) -> None:
    program, *arguments = command.words
    rest = tuple(arguments)
    if program == "sugarbush":
        parse_sugarbush(rest)
        for key in settings_of(rest, "-S", "--set"):
            assert has_setting(key)
    elif program == "dvc":
        get_main_parser().parse_args(arguments)
    elif program == "python":
        assert rest[0] == "-m"
        assert find_spec(rest[1]) is not None
    elif program == "make":
        targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif program == "prefect":
        assert rest[:2] in PREFECT
    elif program == "pip":
        assert rest[0] == "install"
    else:
        assert program in OTHER_PROGRAMS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_an_experiment_of_dvc_has_a_commit_and_may_add_a_setting(page: Path) -> None:
    """`init` commits nothing, and DVC changes only settings that params.yaml contains, or `++`."""
    template = yaml.safe_load((ROOT / "sugarbush/template/params.yaml").read_text())
    committed = False
    for command in commands_of(page):
        committed |= command.words[:2] == ("git", "commit")
        if command.words[:3] == ("dvc", "exp", "run"):
            assert committed, f"{command}: in a new project, DVC stops with 'Empty git repo'"
            for key in settings_of(command.words, "-S", "--set-param"):
                section, _, name = key.partition(".")
                assert key.startswith("++") or name in template.get(section, {}), command


@pytest.mark.parametrize("words", ["--nothing", "chek", "run --forced", "settings a b"])
def test_a_wrong_command_is_found(words: str) -> None:
    with pytest.raises(USAGE_ERROR):
        parse_sugarbush(tuple(words.split()))


def test_a_wrong_command_of_dvc_is_found() -> None:
    with pytest.raises(DvcParserError):
        get_main_parser().parse_args(["experiment", "run"])


def inline_commands(page: Path) -> list[str]:
    return re.findall(r"`sugarbush ([^`]+)`", page.read_text(encoding="utf-8").replace("\n", " "))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_command_in_a_sentence_has_a_subcommand_and_options_that_exist(page: Path) -> None:
    """Such a command may have placeholders, so only its subcommand and its options are checked."""
    group: Any = typer.main.get_command(app)
    for text in inline_commands(page):
        words = [word for word in re.split(r"[\s\[\]]+", text.partition("&&")[0]) if word]
        command: Any = group
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            assert words[0] in command.list_commands(None), f"sugarbush {text}"
            command = command.get_command(None, words.pop(0))
        known = {option for each in command.params for option in each.opts} | {"--help"}
        used = {word.partition("=")[0].rstrip(",.") for word in words if word.startswith("-")}
        assert used <= known, f"sugarbush {text}"


@pytest.mark.parametrize(("page", "code"), PYTHON)
def test_a_python_block_uses_public_names_and_their_arguments(page: str, code: str) -> None:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_sugarbush(node):
            assert node.attr in {*sb.__all__, "__version__"}, f"sb.{node.attr}"
        if isinstance(node, ast.Call) and is_sugarbush(node.func):
            accepted = inspect.signature(getattr(sb, node.func.attr)).parameters
            given = {each.arg for each in node.keywords if each.arg}
            assert given <= set(accepted), f"sb.{node.func.attr}"


def is_sugarbush(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"sb", "sugarbush"}
    )


def test_no_page_and_no_message_installs_the_package_from_a_registry() -> None:
    """No registry has the package. A folder, as in `pip install .`, is right."""
    files = [*PAGES, *(ROOT / "sugarbush").rglob("*.py"), *(ROOT / "sugarbush").rglob("*.md")]
    for file in files:
        # A message may be cut into several strings.
        text = re.sub(r'"\s*\n\s*f?"', "", file.read_text(encoding="utf-8"))
        assert not NOT_ON_A_REGISTRY.findall(text), file
