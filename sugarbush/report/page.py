"""Renders the report as one HTML page that needs no other file and no network.

`render_public_page` takes only public and released values. `render_internal_page` adds results of
real texts without DP, and marks the page as internal. The template engine escapes every text. The
page's content security policy allows one script, by its digest. So even an unescaped text could not
run as a script.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from sugarbush.languages import count_words
from sugarbush.privacy.accounting import gaussian_mu, rounded_up
from sugarbush.report.attribute_charts import attribute_charts
from sugarbush.report.card_values import release_card
from sugarbush.report.dp_table import table_view
from sugarbush.report.model import (
    Download,
    InternalData,
    MethodData,
    PublicData,
    ReleaseFacts,
    RoundData,
)
from sugarbush.report.officer import NOT_STATED, stated, stated_rows
from sugarbush.report.plots import map_points, origin, score_ranks, survivor_bars, used_shades
from sugarbush.report.quality import quality_view
from sugarbush.report.renewal import renewal_lines
from sugarbush.report.statements import in_plain_words, purpose_of_stage, release_epsilon
from sugarbush.report.svg import series_styles
from sugarbush.report.templating import TEMPLATES, inlined
from sugarbush.report.uses import NOT_MEASURED
from sugarbush.report.verdict import worst


def render_public_page(data: PublicData) -> str:
    """Render the page that may be published."""
    return _render(data, None)


def render_internal_page(data: PublicData, internal: InternalData) -> str:
    """Render the public page with values of real texts, and a banner that the page is not DP."""
    return _render(data, internal)


def _render(data: PublicData, internal: InternalData | None) -> str:
    release, card = data.release, release_card(data.release)
    styles = series_styles(m.name for m in data.methods)
    attributes = attribute_charts(data, internal, styles)
    return TEMPLATES.get_template("page.html.jinja").render(
        **inlined(),
        card=card,
        stated=[
            (label, value)
            for label, value in stated_rows(stated(release.publication))
            if value != NOT_STATED
        ],
        release=release,
        news=renewal_lines(card),
        internal=None if internal is None else quality_view(internal, styles),
        budget=_budget(release),
        uses=_uses(release),
        not_measured=NOT_MEASURED,
        downloads=data.downloads,
        code=_code(data.downloads),
        headline=_headline(data),
        methods=[_method_view(m, internal) for m in data.methods],
        attributes=attributes,
        legend=list(
            {source.name: source for item in attributes for source in item["series"]}.values()
        ),
        table=data.table and table_view(data.table, release.schema, internal),
        agreements=data.agreements,
        verdict=worst([m.verdict.value for m in data.methods if m.verdict is not None]),
        adherence=[row for m in data.methods for row in _adherence(m)],
        costs=_costs(data),
        browser=_browser(data),
        scored={m.name for m in data.methods if m.uses_scores},
        styles=styles,
        settings=json.dumps(dict(release.settings), indent=1, ensure_ascii=False),
        infinite=math.isinf(release_epsilon(release)),
    )


def _adherence(method: MethodData) -> list[dict[str, Any]]:
    """Return a row for each attribute: how its values were read, and how many texts obey."""
    how = {
        "record": "the property of the record",
        "keywords": "by keywords",
        "zero_shot": "by descriptions",
        "class_sums": "by noisy sums of the records, with donated texts if there are enough",
        "donated": "by a classifier of donated texts",
        "drawn": "drawn from the DP counts, if no prompt requested it: no text tells it",
        "request": "by the requests alone: too few donated texts tell it",
    }
    return [
        {
            "method": method.name,
            "attribute": each.name,
            "how": "no column: its labels are wrong for the records"
            if each.wrong
            else "a guess: texts do not tell it"
            if each.guessed
            else how[each.source],
            "accuracy": each.accuracy,
            "texts": each.requested,
            "share": each.shown,
        }
        for each in method.labels.value
        if each.source in how
    ]


def _headline(data: PublicData) -> list[tuple[str, str, str]]:
    release = data.release
    spent = release_epsilon(release)
    spends = [spend for method in data.methods for spend in method.spends]
    texts = sum(m.final_texts for m in data.methods)
    costs = [spend.cost for spend in spends if spend.cost is not None]
    figures = [
        ("synthetic texts", f"{texts:,}", _written(data)),
        (
            "epsilon",
            "∞" if math.isinf(spent) else rounded_up(spent, 3),
            f"at delta {rounded_up(release.delta)}, for one {release.unit.value}{_runs(release)}",
        ),
        ("generator calls", f"{sum(s.usage.calls for s in spends):,}", _generator(release)),
    ]
    if costs:
        figures.append(
            ("cost", f"{sum(costs):,.2f}", "paid to the provider, at the prices in the settings")
        )
    return figures


def _runs(release: ReleaseFacts) -> str:
    return f". {release.spending.line().capitalize()}" if release.spending.others else ""


def _written(data: PublicData) -> str:
    named = "by " + ", ".join(m.name for m in data.methods)
    later = sum(m.written_afterwards for m in data.methods if m.all_scores)
    return f"{named}; {later:,} written after the records scored" if later else named


def _generator(release: ReleaseFacts) -> str:
    facts = release.generator
    words = [facts.provider, facts.model] if facts is not None else []
    if release.starts_from is not None:
        words.append(f"{release.starts_from}, fine-tuned")
    return ", ".join(filter(None, words))


def _budget(release: ReleaseFacts) -> dict[str, Any]:
    spent, total, cap = release.spending.of_run, release.spending.total, release.cap
    if not (math.isfinite(spent) and math.isfinite(total)):
        return {"this": 100.0, "before": 0.0, "text": "without a finite epsilon"}
    whole = max(cap, total, 1e-12)
    this = min(spent, total)
    return {
        "this": 100 * this / whole,
        "before": 100 * max(0.0, total - this) / whole,
        "text": f"{rounded_up(total, 3)} of {rounded_up(cap)}",
    }


def _uses(release: ReleaseFacts) -> list[dict[str, str]]:
    """Describe in plain words what used the records, with shares of the release's budget.

    A share is a fraction of mu^2 and is missing if a mechanism has no mu.
    """
    total = gaussian_mu(entry.event for entry in release.entries) ** 2
    by_use: dict[tuple[str, str], float] = {}
    for entry in release.entries:
        use = purpose_of_stage(entry.stage), in_plain_words(entry.event)
        by_use[use] = by_use.get(use, 0.0) + gaussian_mu([entry.event]) ** 2
    return [
        {"purpose": purpose, "words": words, "share": _percent(number, total)}
        for (purpose, words), number in by_use.items()
    ]


def _percent(number: float, total: float) -> str:
    return f"about {number / total:.0%}" if 0 < total < math.inf else ""


def _code(downloads: Sequence[Download]) -> str | None:
    """Write one line of Python that loads the first file of texts. The script of the page replaces
    the file's name by its full address."""
    name = next((file.name for file in downloads if file.texts), None)
    return name and f"import sugarbush as sb; texts = sb.open_release({json.dumps(name)})"


def _method_view(method: MethodData, internal: InternalData | None) -> dict[str, Any]:
    real = None if internal is None else internal.heldout_map.get(method.name)
    rounds = len(method.rounds)
    view: dict[str, Any] = {
        "name": method.name,
        "rounds": rounds,
        "scored": method.uses_scores,
        "votes": None,
        "round_shades": used_shades(rounds),
        "written_shades": used_shades(rounds + 1),
        "map_shades": used_shades(rounds + 1 + bool(method.written_afterwards)),
        "newest": origin(rounds + 1, rounds=rounds)
        if method.written_afterwards
        else f"round {rounds}",
        "map": None,
        "map_real": real is not None,
    }
    if method.map is not None:
        view["map"] = map_points(method.map.value, method=method.name, real=real)
    if method.all_scores:
        view["votes"] = score_ranks(method.all_scores, method=method.name)
        view["stddev"] = method.all_scores[0].stddev
    if method.rounds:
        view["survivors"] = survivor_bars(method.rounds, method=method.name)
        view["table"] = [_round_row(r) for r in method.rounds]
    return view


def _round_row(round_: RoundData) -> dict[str, Any]:
    votes = np.asarray(round_.votes.value, dtype=float)
    survivors = votes[round_.survivors] if len(round_.survivors) else None
    return {
        "number": round_.number,
        "signal": float(votes.mean() / round_.stddev),
        "survivors": "–" if survivors is None else f"{survivors.mean():.1f}",
        "all": f"{votes.mean():.1f}",
    }


def _costs(data: PublicData) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
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
    total = {c: sum(r[c] for r in rows) for c in columns}
    kinds = Counter[str]()
    for method in data.methods:
        for spend in method.spends:
            kinds.update(spend.usage.problems)
    return {
        "kinds": [(kind.replace("_", " "), count) for kind, count in kinds.most_common()],
        "dropped": kinds.total() / max(1, total["calls"] + total["cached"]),
        "rows": rows,
        "total": total,
        "cost": sum(r["cost"] for r in rows if r["cost"] is not None),
        "priced": any(r["cost"] is not None for r in rows),
        "tokens": total["prompt"] + total["completion"] > 0,
    }


def _browser(data: PublicData) -> dict[str, Any]:
    attributes = data.release.schema.attributes
    facts, starts_from = data.release.generator, data.release.starts_from
    entries = [
        (number, method, item)
        for number, method in enumerate(data.methods)
        for item in method.texts.value
    ]
    indices: dict[tuple[int, int | None], int] = {
        (number, item.id): index for index, (number, _, item) in enumerate(entries)
    }
    by_round = sorted(entries, key=lambda row: row[2].round)
    origins = {origin(item.round, rounds=len(m.rounds)): 0 for _, m, item in by_round}
    rows = []
    for number, method, item in entries:
        written = origin(item.round, rounds=len(method.rounds))
        origins[written] += item.final
        rows.append(
            {
                "text": item.text,
                "method": number,
                "words": count_words(item.text),
                "origin": list(origins).index(written),
                "codes": item.codes,
                "votes": item.votes,
                "parent": indices.get((number, item.parent)),
                "examples": item.examples,
                "final": int(item.final),
            }
        )
    content = {
        "rows": [list(row.values()) for row in rows],
        "columns": list(rows[0]) if rows else [],
        "methods": [m.name for m in data.methods],
        "scored": [m.uses_scores for m in data.methods],
        "origins": list(origins),
        "attributes": [(a.name, a.domain) for a in attributes],
        "donated": {
            i: data.donated[i] for i in sorted({i for *_, t in entries for i in t.examples})
        },
    }
    return {
        "content": _inline_json(content),
        "filters": [
            (index, a)
            for index, a in enumerate(attributes)
            if any(item.codes[index] >= 0 for _, _, item in entries)
        ],
        "origins": [(index, *item) for index, item in enumerate(origins.items()) if item[1]],
        "methods": [(number, m.name) for number, m in enumerate(data.methods) if m.texts.value],
        "final": sum(origins.values()),
        "voted": any(item.votes is not None for _, _, item in entries),
        "from_pool": facts is not None and facts.provider == "pool" and starts_from is None,
        "ancestors": any(not item.final for _, _, item in entries),
        "size": sum(m.final_texts for m in data.methods),
    }


def _inline_json(content: object) -> Markup:
    """Return JSON without "<" for a script element, so that no text can end the element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))
