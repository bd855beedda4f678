"""Changes settings for one command, or writes changed settings to params.yaml. Comments are
preserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode as ScalarNode12
from ruamel.yaml.representer import RoundTripRepresenter
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from sugarbush.deep_merge import deep_merge
from sugarbush.errors import ParamsError
from sugarbush.paths import atomic_file
from sugarbush.run.settings import FILE, ProjectSettings, default_fields, parse_params
from sugarbush.yaml_files import yaml_fault

METHODS = "methods"


_STRING = "tag:yaml.org,2002:str"


class _Representer(RoundTripRepresenter):
    """Writes null as `null`, because ruamel.yaml's default is an empty value. Writes texts such as
    `no`, `12:30` and `1e3` with quotes, because YAML 1.1 or 1.2 reads other types."""


def _quoted(representer: RoundTripRepresenter, value: str) -> Any:
    tags = {
        Resolver().resolve(ScalarNode, value, (True, False)),  # type: ignore[no-untyped-call]
        str(YAML(typ="safe", pure=True).resolver.resolve(ScalarNode12, value, (True, False))),
    }
    return representer.represent_scalar(_STRING, value, style=None if tags == {_STRING} else "'")


_Representer.add_representer(
    type(None),
    lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null"),
)
_Representer.add_representer(str, _quoted)


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The new settings, the names of the changed settings, and the new text of params.yaml."""

    params: ProjectSettings
    names: tuple[str, ...]
    text: str

    @property
    def line(self) -> str:
        """Names the changed settings, for the user."""
        return f"{FILE}: changed {', '.join(self.names)}"


def changed_settings(
    base: Path,
    *,
    overlay: Path | None = None,
    assignments: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Changed:
    """Return the settings of params.yaml after changes by an overlay file, `key=value` assignments
    and a mapping `changes`. No file is written. New settings are added to the text if they differ
    from their default. A new value of `methods` names all methods to run. A method that stays
    chosen keeps its settings. Raises ParamsError if the result is invalid."""
    path = base / FILE
    if not path.is_file():
        raise ParamsError(
            f"{path}: not found. Run the command in the folder of a project, or make a project "
            "with: sugarbush init"
        )
    yaml, settings = _yaml(), _loaded(_yaml(), path)
    layers: list[Any] = []
    if overlay is not None:
        if not overlay.is_file():
            raise ParamsError(f"{overlay}: not found (--settings)")
        layers.append(_loaded(yaml, overlay))
    layers += _layers(yaml, assignments, below=[settings, *layers])
    if changes is not None:
        layers.append(changes)
    return _changed(yaml, settings, layers)


def _layers(yaml: YAML, assignments: Sequence[str], *, below: Sequence[Any]) -> list[Any]:
    """Return one mapping for each `key=value`. `below` are the settings that they change."""
    layers: list[Any] = []
    for assignment in assignments:
        name, mark, value = assignment.partition("=")
        if not mark:
            raise ParamsError("-S: expected key=value")
        parsed, keys = _parsed(yaml, name, value), name.strip().split(".")
        if keys[0] == METHODS and len(keys) > 1:
            parsed = _of_chosen(keys, parsed, [*below, *layers])
            keys = keys[:1]
        for key in reversed(keys):
            parsed = {key: parsed}
        layers.append(parsed)
    return layers


def _of_chosen(keys: Sequence[str], value: Any, settings: Sequence[Any]) -> dict[str, Any]:
    """Return a new value of `methods` with a change of one chosen method, such as
    `methods.maple.rounds=3`. Raises ParamsError if the method is not chosen."""
    chosen = [layer[METHODS] for layer in settings if isinstance(layer.get(METHODS), Mapping)][-1:]
    names = list(chosen[0]) if chosen else list(ProjectSettings().methods.by_name)
    _, method, *rest = keys
    if method not in names:
        raise ParamsError(
            f"-S {'.'.join(keys)}=…: {method} is not chosen ({METHODS}: {', '.join(names)}). "
            f"Choose it with -S '{METHODS}={{{method}: {{}}}}', which replaces the other methods"
        )
    for key in reversed(rest):
        value = {key: value}
    return {name: value if name == method else {} for name in names}


def changed_text(
    text: str, changes: Mapping[str, Any], *, assignments: Sequence[str] = ()
) -> Changed:
    """Change the settings in the text of a params.yaml: `changes`, and then `key=value`
    assignments. Raises ParamsError."""
    yaml = _yaml()
    settings = yaml.load(text)
    layers = _layers(yaml, assignments, below=[settings, changes])
    return _changed(yaml, settings, [changes, *layers])


def _changed(yaml: YAML, settings: Any, changes: Sequence[Mapping[str, Any]]) -> Changed:
    names: list[str] = []
    for each in changes:
        names += _choose(settings, each)
        names += _without_old_mix(settings, each)
        names += deep_merge(settings, each, defaults=default_fields())
    text = StringIO()
    yaml.dump(settings, text)
    try:
        fields = YAML(typ="safe").load(text.getvalue())
    except YAMLError:  # DVC uses libyaml, which refuses some YAML that ruamel.yaml accepts
        raise ParamsError(
            f"{FILE}: DVC cannot read this YAML. Write addresses inside [ ] with quotes, or each "
            "on its own line"
        ) from None
    params = parse_params(fields, source=FILE)
    return Changed(params=params, names=tuple(names), text=text.getvalue())


def _choose(settings: Any, changes: Mapping[str, Any]) -> list[str]:
    """Remove the methods that a new value of `methods` does not name, and add those that it names.
    Return the names of the changed settings."""
    new = changes.get(METHODS)
    chosen = settings.get(METHODS, dict.fromkeys(ProjectSettings().methods.by_name))
    if not isinstance(new, Mapping) or not isinstance(chosen, dict) or set(chosen) == set(new):
        return []
    settings[METHODS] = chosen
    for name in set(chosen) - set(new):
        del chosen[name]
    for name in new:
        chosen.setdefault(name, {})
    return [METHODS]


def _without_old_mix(settings: Any, changes: Mapping[str, Any]) -> list[str]:
    """Remove the mix that a new value of `release.mix` replaces, because shares of two mixes do not
    add up. Return the names of the changed settings."""
    old, new = settings.get("release"), changes.get("release")
    if not (isinstance(old, dict) and isinstance(new, Mapping) and "mix" in new and "mix" in old):
        return []
    if old["mix"] == new["mix"]:
        return []
    del old["mix"]
    return ["release.mix"]


def write_settings(base: Path, changed: Changed) -> None:
    """Write changed settings to params.yaml, as `dvc exp run -S` does."""
    if changed.names:
        with atomic_file(base / FILE, public=True) as temporary:
            temporary.write_text(changed.text, encoding="utf-8")


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 120
    return yaml


def _loaded(yaml: YAML, path: Path) -> Any:
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path}{yaml_fault(error)}") from None
    if not isinstance(loaded, dict):
        raise ParamsError(f"{path}: expected sections, such as 'privacy:'")
    return loaded


def _parsed(yaml: YAML, name: str, value: str) -> Any:
    try:
        parsed = yaml.load(value)
    except YAMLError:
        raise ParamsError(f"-S {name}=…: the value is not YAML") from None
    if isinstance(parsed, CommentedSeq):
        parsed.fa.set_block_style()  # DVC's parser, libyaml, cannot read [http://host:8000/v1]
    return parsed
