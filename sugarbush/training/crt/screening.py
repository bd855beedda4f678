"""Splits texts into sentences, then deduplicates and redacts, and decides which texts are public.

This module is on the audit list. The guarantee depends on the order of these steps. Sentences are
compared before any masking. So only an equal sentence makes a sentence a duplicate.

One unit is one text. Training without noise reads the *public view* of a text. The conservative
policy declares some sentences public. In the public view, one mask replaces each run of other
sentences. A sentence with a mask is always private. Without a conservative policy, all sentences
are private.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from sugarbush.errors import InputError
from sugarbush.privacy.data_types import Private
from sugarbush.training.crt import plain_text
from sugarbush.training.crt.dedup import MASK, mask_duplicates
from sugarbush.training.crt.findings import PublicPolicy
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.sentences import Sentence, joined, split


@dataclass(frozen=True, kw_only=True)
class Screened:
    """The texts after screening, and the public view of each text. One text is one unit."""

    texts: Private[str]
    views: Private[str]

    def private_count(self) -> int:
        """Count the texts that are not completely public.

        Under REPLACE_ONE the number is public, because a mask in place of a secret does not change
        the number. Under add/remove the number would be private.
        """
        return sum(MASK in view for view in self.views._per_unit)

    def public_and_private(self) -> tuple[Private[str], Private[str]]:
        """Return the public part and the private part.

        The public part: the public view of each text that has a public sentence. The private part:
        each whole text that has a private sentence. So a text may be in both parts.
        """
        pairs = zip(self.texts._per_unit, self.views._per_unit, strict=True)
        return (
            Private([view for view in self.views._per_unit if view.strip() != MASK]),
            Private([text for text, view in pairs if MASK in view]),
        )


def screen(
    texts: Private[str],
    *,
    policy: Policy,
    conservative: PublicPolicy | None = None,
    known: Set[str] = frozenset(),
) -> Screened:
    """Screen a corpus. `known` are sentences of public texts; they never count as duplicates.

    Guarantee: if a mask replaces every occurrence of a secret, `changed_units` units change. If the
    mask moves no end of a sentence, each distinct sentence with the secret changes at most one
    unit. There is no guarantee for a secret in a known sentence. Raises InputError if a text or a
    known sentence contains the mask. Such a known sentence could equal a sentence with a masked
    secret.
    """
    _refuse_known_masks(known)
    originals = list(texts._per_unit)
    for row, text in enumerate(originals, start=1):
        if MASK in text:
            raise InputError(
                f"record {row} contains {MASK!r}, the mask of redacted text. Remove the mask."
            )
    screened = policy.redact(_deduplicated(originals, known))
    views = [MASK] * len(screened) if conservative is None else public_views(screened, conservative)
    return Screened(texts=Private(screened), views=Private(views))


def public_views(redacted: Sequence[str], conservative: PublicPolicy) -> list[str]:
    """Return the texts with one mask for each run of sentences that are not public by
    `conservative`.

    The view hides the number of sentences in a run. So the view also hides a secret that moves the
    end of a sentence.
    """
    documents = [split(text) for text in redacted]
    plain = list(
        dict.fromkeys(s.text for sentences in documents for s in sentences if MASK not in s.text)
    )
    said = conservative.is_public(plain)
    public = {text for text, is_public in zip(plain, said, strict=True) if is_public}
    # A sentence with unusual characters is public only if its plain characters are public, too.
    written = {text: form for text in public if (form := plain_text.plain(text).text) != text}
    also = conservative.is_public(list(written.values()))
    public -= {text for text, is_public in zip(written, also, strict=True) if not is_public}
    return [joined(_masked_runs(sentences, public)) for sentences in documents]


def changed_units(
    texts: Private[str], secret: str, *, policy: Policy, known: Set[str] = frozenset()
) -> int:
    """Count the screened units that change when a mask replaces `secret` everywhere.

    The returned number is private. This number is the argument `missed` of `confidentiality.group`.
    If it is 0, the epsilon of the secret is 0. The texts are redacted twice. So a unit also counts
    if a detector labels the neighbours of a masked secret differently.
    """
    originals: Sequence[str] = list(texts._per_unit)
    _refuse_known_masks(known)
    if not secret:
        raise InputError("an empty text is not a secret")
    replaced = [text.replace(secret, MASK) for text in originals]
    before = _deduplicated(originals, known)
    after = _deduplicated(replaced, known)
    pairs = [
        (first, second) for first, second in zip(before, after, strict=True) if first != second
    ]
    if not pairs:
        return 0
    redacted_before = policy.redact([first for first, _ in pairs])
    redacted_after = policy.redact([second for _, second in pairs])
    return sum(
        first != second for first, second in zip(redacted_before, redacted_after, strict=True)
    )


def _refuse_known_masks(public_sentences: Set[str]) -> None:
    if any(MASK in sentence for sentence in public_sentences):
        raise InputError(
            f"a known sentence contains {MASK!r}, the mask of redacted text. Remove the mask."
        )


def _masked_runs(sentences: Iterable[Sentence], public: Set[str]) -> list[Sentence]:
    view: list[Sentence] = []
    for sentence in sentences:
        if sentence.text in public:
            view.append(sentence)
            continue
        if view and view[-1].text == MASK:
            view.pop()
        view.append(Sentence(MASK, sentence.space))
    return view


def _deduplicated(texts: Sequence[str], public_sentences: Set[str]) -> list[str]:
    documents = mask_duplicates((split(text) for text in texts), known=public_sentences)
    return [joined(sentences) for sentences in documents]
