"""The report as one self-contained HTML page: no network, no framework, no data from elsewhere.

`render_public_page` takes public and released values only, so nothing computed on real texts can
be on its page. `render_internal_page` adds what was, and says so. Every text is escaped by the
template engine; the page's policy allows one script, by its digest, so that a text that got
through would not run.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.report.card import release_card, release_epsilon, short_power
from sugarbush.report.dp_table import table_view
from sugarbush.report.model import (
    InternalData,
    MethodData,
    PublicData,
    Release,
    SyntheticText,
)
from sugarbush.report.plots import (
    Series,
    attribute_shares,
    born,
    count_error,
    map_points,
    number,
    share_error,
    survivor_bars,
    used_shades,
    vote_ranks,
)
from sugarbush.report.quality import quality_view
from sugarbush.report.svg import series_styles
from sugarbush.report.templating import TEMPLATES, inlined


def render_public_page(data: PublicData) -> str:
    """The page that may be handed out."""
    return _render(data, None)


def render_internal_page(data: PublicData, internal: InternalData) -> str:
    """The same page with what was computed on real texts, headed as not DP."""
    return _render(data, internal)


def _render(data: PublicData, internal: InternalData | None) -> str:
    release = data.release
    styles = series_styles(m.name for m in data.methods)
    attributes = _attributes(data, internal, styles)
    return TEMPLATES.get_template("page.html.jinja").render(
        **inlined(),
        card=release_card(release),
        release=release,
        internal=None if internal is None else quality_view(internal, styles),
        budget=_budget(data),
        headline=_headline(data),
        methods=[_method_view(m, internal) for m in data.methods],
        attributes=attributes,
        legend=list({one.name: one for item in attributes for one in item["series"]}.values()),
        table=None
        if data.table is None
        else table_view(data.table.value, release.schema, internal),
        agreements=data.agreements,
        costs=_costs(data),
        browser=_browser(data),
        styles=styles,
        settings=json.dumps(dict(release.settings), indent=1, ensure_ascii=False),
        attributed=release.schema.attributes,
        number=number,
        infinite=math.isinf(release_epsilon(release)),
    )


def _headline(data: PublicData) -> list[dict[str, str]]:
    """The few numbers that a reader looks for first."""
    release = data.release
    spent = release_epsilon(release)
    calls = sum(s.usage.calls for m in data.methods for s in m.spends)
    texts = sum(m.final_texts for m in data.methods)
    costs = [s.cost for m in data.methods for s in m.spends if s.cost is not None]
    found = [
        {"label": "epsilon", "value": "∞" if math.isinf(spent) else f"{spent:.3g}",
         "note": f"at delta {short_power(release.delta)}, per {release.unit.value}"},
        {"label": "synthetic texts", "value": f"{texts:,}",
         "note": "by " + ", ".join(m.name for m in data.methods)},
        {"label": "generator calls", "value": f"{calls:,}",
         "note": _writer(release)},
    ]  # fmt: skip
    if costs:
        found.append(
            {
                "label": "paid",
                "value": f"{sum(costs):,.2f}",
                "note": "to the provider, by the prices in the settings",
            }
        )
    rounds = {len(m.rounds) for m in data.methods if m.rounds}
    if rounds:
        most = max(rounds)
        found.append({"label": "rounds of votes", "value": f"{most}",
                      "note": "fixed before the first draw"})  # fmt: skip
    return found


def _writer(release: Release) -> str:
    """Who wrote the texts, in a few words."""
    words: list[str] = []
    if release.generator is not None:
        words += filter(None, [release.generator.provider, release.generator.model])
    if release.starts_from is not None:
        words.append(f"{release.starts_from}, fine-tuned")
    return ", ".join(words)


def _budget(data: PublicData) -> dict[str, Any]:
    """The dataset's budget as percentages of its cap, for a bar."""
    release = data.release
    spent, total, cap = release_epsilon(release), release.dataset_epsilon, release.cap
    if not (math.isfinite(spent) and math.isfinite(total)):
        return {"this": 100.0, "before": 0.0, "text": "without a finite epsilon"}
    whole = max(cap, total, 1e-12)
    this = min(spent, total)
    return {
        "this": 100 * this / whole,
        "before": 100 * max(0.0, total - this) / whole,
        "text": f"{total:.3g} of {cap:g}",
    }


def _method_view(method: MethodData, internal: InternalData | None) -> dict[str, Any]:
    real = None if internal is None else internal.heldout_map.get(method.name)
    rounds = len(method.rounds)
    found: dict[str, Any] = {
        "name": method.name,
        "rounds": rounds,
        "scored": method.scored,
        "round_shades": used_shades(rounds),
        "written_shades": used_shades(rounds + 1),
    }
    if method.rounds:
        found["votes"] = vote_ranks(method.rounds, method=method.name, scored=method.scored)
        found["survivors"] = survivor_bars(method.rounds, method=method.name)
        found["table"] = [_round_row(r) for r in method.rounds]
        found["stddev"] = method.rounds[0].stddev
    found["map"] = None
    if method.map is not None:
        found["map"] = map_points(method.map.value, method=method.name, real=real)
        found["map_real"] = real is not None
    return found


def _round_row(round_: Any) -> dict[str, Any]:
    votes = np.asarray(round_.votes.value, dtype=float)
    kept = votes[round_.survivors] if len(round_.survivors) else np.zeros(0)
    return {
        "number": round_.number,
        "candidates": len(votes),
        "survivors": len(round_.survivors),
        "signal": float(votes.mean() / round_.stddev),
        "kept": f"{kept.mean():.1f}" if len(kept) else "–",
        "all": f"{votes.mean():.1f}",
    }


def _attributes(
    data: PublicData, internal: InternalData | None, styles: Mapping[str, tuple[str, int]]
) -> list[dict[str, Any]]:
    """One chart an attribute: DP counts, what each method's texts were asked for, and for the
    internal page the real parts and what is read off the synthetic texts."""
    found = []
    for attribute in data.release.schema.attributes:
        series = _series_of(attribute.name, data, internal, styles)
        if series:
            found.append(
                {
                    "name": attribute.name,
                    "description": attribute.description,
                    "band": None
                    if data.metadata is None
                    else count_error(data.metadata.stddev.get(attribute.name)),
                    "chart": attribute_shares(attribute.name, attribute.domain, series),
                    "series": series,
                }
            )
    return found


def _series_of(
    name: str,
    data: PublicData,
    internal: InternalData | None,
    styles: Mapping[str, tuple[str, int]],
) -> list[Series]:
    series: list[Series] = []

    def add(
        label: str, style: str, shape: int, counts: NDArray[Any] | None,
        stddev: float | None = None,
    ) -> None:  # fmt: skip
        if counts is None:
            return
        shares = np.clip(np.asarray(counts, dtype=float), 0, None)
        total = float(shares.sum())
        if total > 0:
            series.append(
                Series(name=label, style=style, shape=shape, shares=shares / total,
                       error=share_error(stddev, total))
            )  # fmt: skip

    if internal is not None:
        add("real, held out", "series-real", 3, internal.heldout.get(name))
        add("real, train", "series-train", 3, internal.train.get(name))
    if data.metadata is not None:
        add(f"DP ({data.metadata.source})", "series-dp", 0, data.metadata.counts.value.get(name),
            data.metadata.stddev.get(name))  # fmt: skip
    for method in data.methods:
        style, place = styles[method.name]
        read = None if internal is None else internal.read.get(method.name, {}).get(name)
        if read is not None:
            add(f"{method.name}, read off its texts", style, place + 1, read)
        else:
            asked = method.asked.value.get(name)
            add(f"{method.name}, asked for", style, place + 1, asked)
    return series


def _costs(data: PublicData) -> dict[str, Any]:
    """Calls, tokens and money by method and step."""
    rows = [
        {
            "method": method.name,
            "step": spend.step,
            "calls": spend.usage.calls,
            "cached": spend.usage.cached_calls,
            "prompt": spend.usage.prompt_tokens,
            "completion": spend.usage.completion_tokens,
            "unusable": sum(spend.usage.problems.values()),
            "cost": spend.cost,
        }
        for method in data.methods
        for spend in method.spends
    ]
    columns = ("calls", "cached", "prompt", "completion", "unusable")
    usages = [spend.usage for method in data.methods for spend in method.spends]
    kinds = Counter[str]()
    for usage in usages:
        kinds.update(usage.problems)
    asked = sum(usage.calls + usage.cached_calls for usage in usages)
    return {
        "kinds": [(kind.replace("_", " "), count) for kind, count in kinds.most_common()],
        "dropped": kinds.total() / asked if asked else 0.0,
        "rows": rows,
        "total": {c: sum(r[c] for r in rows) for c in columns},
        "cost": sum(r["cost"] for r in rows if r["cost"] is not None),
        "priced": any(r["cost"] is not None for r in rows),
        "tokens": any(r["prompt"] or r["completion"] for r in rows),
    }


def _browser(data: PublicData) -> dict[str, Any]:
    """Rows of the text browser; texts of one method have ids of their own."""
    schema = data.release.schema
    rows = [
        {
            "key": f"{method.name}-{item.id}",
            "method": method.name,
            "id": item.id,
            "text": item.text,
            "words": len(item.text.split()),
            "round": item.round,
            "born": born(item.round),
            "parent": None if item.parent is None else f"{method.name}-{item.parent}",
            "votes": item.votes,
            "final": item.final,
            "attributes": _values(item, schema),
        }
        for method in data.methods
        for item in method.texts.value
    ]
    used = {
        place
        for method in data.methods
        for item in method.texts.value
        for place, code in enumerate(item.codes)
        if code >= 0
    }
    return {
        "rows": rows,
        "filters": [(place, a) for place, a in enumerate(schema.attributes) if place in used],
        "methods": [m.name for m in data.methods if m.texts.value],
        "final": sum(row["final"] for row in rows),
        "voted": any(row["votes"] is not None for row in rows),
        "drawn": _all_drawn(data.release),
        "ancestors": any(not row["final"] for row in rows),
        "size": sum(m.final_texts for m in data.methods),
    }


def _all_drawn(release: Release) -> bool:
    """Whether no text was written: a pool draws them from public ones."""
    by_pool = release.generator is not None and release.generator.provider == "pool"
    return by_pool and release.starts_from is None


def _values(item: SyntheticText, schema: Schema) -> list[tuple[int, str, str]]:
    """Place in the schema, name and value of each attribute that was asked for."""
    return [
        (place, schema.attributes[place].name, schema.attributes[place].domain[code])
        for place, code in enumerate(item.codes)
        if code >= 0
    ]
