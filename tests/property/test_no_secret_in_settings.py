"""No setting accepts a URL with a password, and no message repeats the password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.errors import ParamsError
from sugarbush.run.settings import ProjectSettings, default_fields, parse_params
from sugarbush.settings import Section, has_secret

SECRET = "hunter2"
URLS = (
    f"s3://me:{SECRET}@bucket/a.csv",
    f"S3://me:{SECRET}/x@bucket/a.csv",
    f"https://{SECRET}@host/v1",
    f"tcp://me:{SECRET}@host:8786",
    f"https://host:8000/v1?api-key={SECRET}",
    f"https://host/a.csv?sv=1&sig={SECRET}",
    f"https://host/a.csv?X-Amz-Signature={SECRET}",
    f"https://host/a.csv#access_token={SECRET}",
    f"simplecache::s3://me:{SECRET}@bucket/a.csv",
    f"text before s3://me:{SECRET}@bucket/a.csv and after",
)
HARMLESS = (
    "support@example.com: tickets of customers",
    "https://host:8000/v1?api-version=2024-02-01",
    "https://host:8000/@scope/model",
    "http://[::1]:8000/v1/@kim",
    "s3://bucket/a.csv?versionId=1",
    "https://en.wikipedia.org/wiki/Key:value",
    "tcp://10.0.0.1:8786",
    "a:b@c",
)


def places(fields: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting."""
    if isinstance(fields, dict) and fields:
        for name, value in fields.items():
            yield from places(value, (*at, name))
    else:
        yield at


# The texts of a pool may contain addresses.
PLACES = sorted(set(places(default_fields())) - {("generator", "pool", "texts")})
KINDS = sorted(
    {kind for kind in [*Section.__subclasses__()] for kind in (kind, *kind.__subclasses__())},
    key=lambda kind: (kind.__module__, kind.__qualname__),
)


def nested(place: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(place):
        value = {name: value}
    return value  # type: ignore[no-any-return]


@given(
    place=st.sampled_from(PLACES),
    url=st.sampled_from(URLS),
    wrap=st.sampled_from([lambda v: v, lambda v: [v], lambda v: {"a": v}, lambda v: {v: "a"}]),
)
def test_a_url_with_a_password_is_refused_in_every_setting(
    place: tuple[str, ...], url: str, wrap: Any
) -> None:
    with pytest.raises(ParamsError) as refusal:
        parse_params(nested(place, wrap(url)))
    assert SECRET not in str(refusal.value)


@given(kind=st.sampled_from(KINDS), url=st.sampled_from(URLS), data=st.data())
def test_a_section_made_in_python_refuses_it_too(
    kind: type[Section], url: str, data: st.DataObject
) -> None:
    if not kind.model_fields:
        return
    name = data.draw(st.sampled_from(sorted(kind.model_fields)))
    with pytest.raises((ValidationError, ParamsError)) as refusal:
        kind(**{kind.model_fields[name].alias or name: url})
    assert SECRET not in f"{refusal.value} {refusal.value!r}"


@pytest.mark.parametrize("text", HARMLESS)
def test_other_addresses_and_texts_are_accepted(text: str) -> None:
    assert not has_secret(text)


@pytest.mark.parametrize("url", URLS)
def test_every_url_with_a_password_is_recognised(url: str) -> None:
    assert has_secret(url)
    assert has_secret({"a": ({"b": [url]},)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        "prepare.donated", "prepare.schema", "run.cluster", "embedding.model", "privacy.dataset",
        "generator.openai.base_url", "generator.pool.sources", "methods.crt.labelled",
    ],
)  # fmt: skip
def test_no_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    url = URLS[0]
    value: Any = [{"file": url, "share": 0.5}] if place.endswith("sources") else url
    Path("params.yaml").write_text(yaml.safe_dump({}))
    changes = [["check", "-S", f"{place}={url}"], ["check", "-S", f"{place}={url}: ["]]
    for command in (*changes, ["run", "-S", f"{place}={url}"], ["check", "-S", url]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code != 0
        assert SECRET not in result.stdout + result.stderr
    assert SECRET not in Path("params.yaml").read_text()
    Path("params.yaml").write_text(yaml.safe_dump(nested(tuple(place.split(".")), value)))
    for name in ("settings", "check", "estimate", "budget"):
        result = CliRunner().invoke(app, [name])
        assert result.exit_code != 0
        assert SECRET not in result.stdout + result.stderr
        assert place.rpartition(".")[0] in result.stderr


def test_every_section_of_the_settings_is_among_the_kinds() -> None:
    found = {
        kind.annotation
        for kind in ProjectSettings.model_fields.values()
        if isinstance(kind.annotation, type) and issubclass(kind.annotation, Section)
    }
    assert found <= set(KINDS)
