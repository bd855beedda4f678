"""Finds secrets with a fixed format by regular expressions.

The time of each pattern is linear in the length of a text, because no repetition contains another
repetition. Names have no fixed format. NAME matches any two capitalised words, such as names,
titles and places. NAME finds a single first name only in "I'm Ann". TITLED_NAME finds names after a
title. So the patterns miss names: measure how many, or add a trained detector.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sugarbush.errors import ParamsError
from sugarbush.training.crt.findings import Finding


def luhn(text: str) -> bool:
    """Return whether the digits form a card number: 12 to 19 digits with Luhn's check digit."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [
        d if index % 2 == 0 else sum(divmod(2 * d, 10)) for index, d in enumerate(digits[::-1])
    ]
    return 12 <= len(digits) <= 19 and sum(doubled) % 10 == 0


@dataclass(frozen=True)
class Pattern:
    """A regular expression, the score of its matches, and an additional test of a match.

    If the expression has a group `secret`, only this group is the finding.
    """

    expression: re.Pattern[str]
    score: float
    confirmed: Callable[[str], bool] = lambda text: True

    def findings(self, text: str, label: str) -> Iterator[Finding]:
        group = "secret" if "secret" in self.expression.groupindex else 0
        for match in self.expression.finditer(text):
            if match.end() > match.start() and self.confirmed(match.group()):
                yield Finding(*match.span(group), label, self.score)


def _iban(text: str) -> bool:
    """Return whether the text has the check digits of an IBAN (ISO 13616: 1 modulo 97)."""
    code = re.sub(r"[\W_]", "", text).upper()
    return (
        15 <= len(code) <= 34
        and int("".join(str(int(c, 36)) for c in code[4:] + code[:4])) % 97 == 1
    )


def _ipv6(text: str) -> bool:
    """Return whether the text is an address of IPv6 with two groups or more, one with a digit."""
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    return len(re.findall(r"\w+", text)) >= 2 and text.count(":") >= 2 and not address.is_loopback


# Groups of digits of phone numbers that have no area code with 0 and no country code with +
_PHONE_GROUPS = {(3, 3, 4), (1, 3, 3, 4), (2, 3, 3, 4), (3, 4, 4), (4, 3, 3), (2, 4, 4), (5, 5)}
_NO_PHONE = re.compile(
    r"(?:1[5-9]|20)\d\d ?- ?(?:1[5-9]|20)\d\d|(\d)\d{2,3}-\1\d{2,3}"  # years, pages
    r"|\d{1,2}(?: \d{3}){2,}|\d{3}(?: \d{3}){3,}"  # a number with spaces between thousands
    r"|\d+(?:[. ]\d+)*-\d+\.\d+(?:[. ]\d+)*"  # a range of decimals
)


def _wrapped_phone(text: str) -> bool:
    """Return whether numbers with unusual separators are a phone number, and not a column or range
    of numbers. Separators that are line breaks need a known form."""
    groups = re.findall(r"\d+", text)
    digits = sum(map(len, groups))
    if text[0] == "+" or re.match(r"\(?0\d", text) is not None:
        return 9 <= digits <= 15
    if "\n" in text:
        return tuple(map(len, groups)) in _PHONE_GROUPS
    return 7 <= digits <= 15 and _NO_PHONE.fullmatch(text) is None


def _separated_phone(text: str) -> bool:
    """Return whether groups of digits between equal signs are a phone number."""
    groups = tuple(map(len, re.findall(r"\d+", text)))
    if text[0] == "+" or re.match(r"\(?0\d", text) is not None:
        return 9 <= sum(groups) <= 15
    return groups in _PHONE_GROUPS and len(groups) > 2


_CARD_GROUPS = {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3)}


def _wrapped_card(text: str) -> bool:
    groups = tuple(map(len, re.findall(r"\d+", text)))
    return luhn(text) and (groups in _CARD_GROUPS or "\n" not in text)


def _count_of_digits(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: low <= sum(c.isdigit() for c in text) <= high


def _ranges(included: Callable[[str], bool]) -> str:
    """Return the characters below U+0600 that are `included`, as ranges of a character class."""
    codes = [code for code in range(0x600) if included(chr(code))]
    starts = [c for c in codes if c - 1 not in codes]
    ends = [c for c in codes if c + 1 not in codes]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)[a-z]{0,6}"
_STREET = (
    r"(?:Street|St|Road|Rd|Lane|Ln|Row|Avenue|Ave|Close|Terrace|Way|Drive|Dr|Boulevard|Blvd|Court|Ct|"
    r"Place|Pl|Square|Parkway|Pkwy|Circle|Highway|Hwy|Trail|Crescent|Gardens|Grove|Mews|Quay)\b\.?"
)
# In other languages, the word for a street is at the end (Hauptstraße) or before a name (Rue de X).
_STREET_END = (
    r"(?:stra(?:ß|ss)e|str\.|gasse|weg|platz|allee|straat|laan|plein|gracht|gatan|gata|vägen|gade|vej|"
    r"veien|katu|utca|ulica)"
)
_STREET_START = (
    r"(?:Rue|Avenue|Boulevard|Chemin|Via|Viale|Corso|Piazza|Calle|Avenida|Avda\.?|Paseo|Plaza|Rua|"
    r"Travessa|Praça|Largo|Ulica|ul\.|al\.|Strada|Str\.|Jalan|Jl\.|Calea)"
)
# NAME does not start with a word such as "I'm". If NAME masked all of "I'm Ann", the masked text
# would differ from the masked text of "I'm <MASK>".
_CONTRACTION = (
    r"(?:I|It|He|She|We|You|They|This|That|There|Here|What|Who|Where|How)['’][a-z]{1,2}(?!\w)"
)
_UPPER = f"[{_ranges(str.isupper)}]"
_LETTER = r"(?:[^\W\d_]|['’-])"
_CAPITALISED = rf"{_UPPER}(?:(?!{_UPPER}){_LETTER}){{1,20}}"
_NAME_WORD = rf"{_UPPER}{_LETTER}{{1,20}}"
_PARTICLES = (
    r"(?:(?:van|von|de|da|di|del|della|der|den|la|le|bin|ibn|al|el|dos|du|af|ten|ter) ){0,3}"
)
_TITLE = r"(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Sir|Madam|Mme|Herr|Frau|Nurse|Officer|Doctor)"

# The @ and the points of an e-mail address, also as words: jane [at] mail (dot) example . org
_DOT_WORD = r"[\[({<]\s?(?:dot|\.|punkt|punto|point|ponto)\s?[\])}>]"
_DOMAIN = r"[\w-]{1,63}(?: ?\. ?[\w-]{1,63}){1,6}"
_TOP_DOMAIN = (
    r"(?:com|org|net|edu|gov|info|biz|io|co|de|fr|uk|es|nl|eu|ch|pl|se|dk|fi|pt|br|mx|ca|au|nz|jp)"
)
_SPELLED_DOMAIN = (
    rf"(?:[^\W_]{{1,63}}(?i:\.| dot |[_-]dot[_-]|\s?{_DOT_WORD}\s?)){{1,4}}(?i:{_TOP_DOMAIN})(?!\w)"
)
_EMAIL = (
    r"(?:[\w.+%-]{1,64}+|\"[^\"\n]{1,64}\")(?:"
    rf" ?\\?@ ?(?:{_DOMAIN}|\[[\w.:]{{3,45}}\]"
    rf"|[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{0,3}},{_TOP_DOMAIN}(?!\w))"
    r"|\s?[\[({<]\s?(?i:at|@|ät|arroba)\s?[\])}>]\s?"
    rf"[\w-]{{1,63}}(?i:(?:\.|\s?{_DOT_WORD}\s?| dot )[\w-]{{1,63}}){{1,6}}"
    rf"| -at- {_SPELLED_DOMAIN}"
    rf"|(?i: at )(?=[^\W_]{{1,63}}(?i: dot |[_-]dot[_-]|\s?{_DOT_WORD})){_SPELLED_DOMAIN})"
    rf"|(?<![\w.+%-])[\w.+%-]{{1,64}}?(?i:[_-]at[_-]){_SPELLED_DOMAIN}"
)

# A range of decimals, or a number of three digits, which no date has
_RANGE = re.compile(r"\d+\.\d+-\d{1,2}|\d{3}[-/.].*|.*[-/.]\d{3}")

# Formats of keys and tokens of services. The first characters name the service.
_KEY_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_TOKEN = "|".join((
    r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{0,}){1,3}",  # JSON Web Token
    r"(?<!\w)(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA)[A-Z0-9]{16}(?!\w)",  # AWS
    r"(?<!\w)gh[pousr]_\w{20,255}|(?<!\w)github_pat_\w{22,255}",
    r"(?<!\w)gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|oas|imt)-[\w.-]{16,300}",  # GitLab
    r"(?<!\w)(?:sk|rk|pk)_(?:live|test)_\w{10,255}|(?<!\w)whsec_[\w+/=]{16,128}",  # Stripe
    r"(?<![\w-])sk-(?:[a-z]{2,12}[\w]{0,6}-)?(?=[\w-]{0,40}\d)[\w-]{16,300}",  # OpenAI, Anthropic
    r"(?<!\w)xox[a-z](?:[.-][\w-]{1,200})+|(?<!\w)xapp-[\w-]{20,200}",  # Slack
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{20,200}",
    r"discord(?:app)?\.com/api/webhooks/\d{10,20}/[\w-]{30,100}",
    r"(?<![\w-])[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])",  # Discord
    r"(?<!\w)AIza[\w-]{30,45}|(?<!\w)ya29\.[\w-]{20,300}|(?<!\w)GOCSPX-[\w-]{20,40}",  # Google
    r"(?<!\w)hf_[A-Za-z0-9]{20,60}(?!\w)|(?<!\w)api_org_[A-Za-z0-9]{20,60}",  # Hugging Face
    r"(?<!\w)npm_[A-Za-z0-9]{30,60}|(?<!\w)pypi-[\w-]{30,300}|(?<!\w)dckr_pat_[\w-]{20,60}",
    r"(?<!\w)SG\.[\w-]{16,64}\.[\w-]{16,64}|(?<!\w)key-[0-9a-f]{32}(?!\w)",  # SendGrid, Mailgun
    r"(?<!\w)(?:SK|AC)[0-9a-f]{32}(?!\w)",  # Twilio
    r"(?<!\d)\d{8,10}:[\w-]{35}(?![\w-])",  # Telegram
    r"(?<!\w)do[opr]_v1_[0-9a-f]{40,80}|(?<!\w)shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    r"(?<!\w)sq0(?:atp|csp|idp)-[\w-]{22,60}|(?<!\w)EAAA[\w-]{50,80}",  # Square
    r"(?<!\w)(?:dapi|dkea)[0-9a-f]{32}(?:-\d)?(?!\w)|(?<!\w)(?:hvs|hvb)\.[\w-]{20,300}",
    r"(?<!\w)(?:lin_api|ntn|secret|rubygems|r8|gsk|glc|glsa|sntrys|phc|phx|re|dp\.pt|sbp|sgp|sl)_"
    r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9=]{20,300}",
    r"(?<!\w)(?:pplx|tvly|xai|nvapi|figd|PMAK|NRAK|tskey|ATATT3)[-_]"
    r"(?=[A-Za-z_=-]{0,60}\d)[\w=-]{20,300}",
    r"(?<!\w)AGE-SECRET-KEY-1[A-Z0-9]{50,70}",
))  # fmt: skip

PATTERNS: Mapping[str, Pattern] = {
    "EMAIL": Pattern(re.compile(_EMAIL), 0.95),
    "HANDLE": Pattern(re.compile(r"(?<![\w@.])@ ?\w{2,30}"), 0.6),
    "PHONE": Pattern(
        re.compile(
            r"(?<![\w-])(?:\+ ?)?(?:\(\d{1,5}\)|\d{1,5})(?:(?: / |[ ./()-]{0,2})\d{1,5}){1,7}"
            r"(?:\s?(?:x|ext\.?) ?\d{1,6})?(?!\w|-\d)",
            re.IGNORECASE,
        ),
        0.6,
        _count_of_digits(7, 20),
    ),
    "SSN": Pattern(re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"), 0.9),
    "CARD": Pattern(re.compile(r"(?<![\w-])\d(?:[ -]?\d){11,18}(?![\w-])"), 0.9, luhn),
    "IBAN": Pattern(
        re.compile(
            r"(?<!\w)(?:(?i:[A-Z]{2}\d{2}[A-Z0-9]{11,30})"
            r"|[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?)(?!\w)"
        ),
        0.9,
        _iban,
    ),
    "ORDER_NUMBER": Pattern(re.compile(r"(?<![\w-])\d{3}-\d{5}-\d{4}(?![\w-])"), 0.9),
    "TRACKING_NUMBER": Pattern(
        re.compile(r"(?<![\w-])(?=[A-Z-]*\d)[A-Z0-9](?:-?[A-Z0-9]){6,24}(?![\w-])"), 0.7
    ),
    "REFERENCE": Pattern(re.compile(r"(?<![\w-])[A-Z]{1,5}[- ]?\d[A-Z0-9-]{3,20}(?![\w-])"), 0.6),
    "CODE": Pattern(
        re.compile(
            r"(?<![\w-])(?=[a-z-]{0,20}\d)(?=[\d-]{0,20}[a-z])[a-z0-9][a-z0-9-]{4,38}[a-z0-9](?![\w-])",
            re.IGNORECASE,
        ),
        0.5,
        _count_of_digits(3, 40),
    ),
    "IDENTIFIER": Pattern(re.compile(r"(?<![\w.-])\d{6,}(?![\w-])"), 0.5),
    "DATE": Pattern(
        re.compile(
            r"(?<!\w)(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"
            r"|\d{1,2} ?[-/.–—−] ?\d{1,2} ?[-/.–—−] ?(?:19|20)\d\d"
            rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}})?"
            rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)(?!\w)"
        ),
        0.6,
        lambda text: _RANGE.fullmatch(text) is None,
    ),
    "ADDRESS": Pattern(
        re.compile(
            r"(?<!\w)\d{1,6}[A-Za-z]?(?: ?- ?\d{1,6})?,? "
            rf"(?:[^\W\d_][\w'.-]{{0,30}} ){{1,4}}{_STREET}"
            r"(?:(?:,? (?:Apt|Suite|Unit|Flat)\.? ?\w{1,8})?(?:,? [A-Z][\w'-]{1,30}){0,4}"
            r"(?:,? [A-Z]{2})?,? \d{4,6}(?:-\d{4})?)?"
            rf"|(?<!\w)\d{{1,6}}[A-Za-z]?-(?:(?-i:{_UPPER})[^\W\d_]{{0,30}}-){{1,4}}{_STREET}",
            re.IGNORECASE,
        ),
        0.7,
    ),
    "STREET": Pattern(
        re.compile(
            rf"(?<!\w)(?:{_UPPER}[\w.'-]{{1,30}} )?{_UPPER}?[\w-]{{1,30}}{_STREET_END},? "
            r"\d{1,5}[a-z]?(?!\w)"
            rf"|(?<!\w)(?:\d{{1,5}}[a-z]?(?: bis)?,? )?{_STREET_START} (?:[\w'.-]{{1,20}} ){{0,3}}"
            rf"{_UPPER}[\w'.-]{{1,30}}(?:,? \d{{1,5}}[a-z]?)?(?!\w)"
            rf"|(?<!\w)(?:{_UPPER}[\w'.-]{{0,30}} ){{1,3}}"
            r"(?:Street|Road|Lane|Avenue|Drive|Boulevard|Square|Terrace)(?!\w)"
            r"|(?<!\w)P\. ?O\. ?Box \d{1,6}|(?<!\w)(?:PO Box|Postfach|Apartado) \d{1,6}"
        ),
        0.6,
    ),
    "ZIP_ADDRESS": Pattern(
        re.compile(
            r"(?<!\w)\d{1,6} (?:[A-Z][\w'.-]{0,30},? ){1,8}(?:Apt\. |Suite )?(?:\d{1,5} )?"
            r"(?:[A-Z][\w'.-]{0,30},? ){0,5}(?:[A-Z]{2},? )\d{5}(?:-\d{4})?(?!\w)"
        ),
        0.8,
    ),
    "MILITARY_ADDRESS": Pattern(
        re.compile(
            r"(?<!\w)(?:PSC|CMR|Unit|USS|USNS|USNV|USCGC) [\w, ]{1,60}\bA[AEP],? \d{5}(?!\w)"
        ),
        0.9,
    ),
    "CAPITALS": Pattern(re.compile(r"(?<![\w-])[A-Z]{8,24}(?![\w-])"), 0.4),
    "NAME": Pattern(
        re.compile(
            rf"(?<!\w)(?!{_CONTRACTION}){_CAPITALISED} (?:{_UPPER}\. )?{_PARTICLES}{_NAME_WORD}"
            rf"(?: {_PARTICLES}{_NAME_WORD})?(?!\w)"
            rf"|(?<=\bI['’]m ){_CAPITALISED}(?!\w)"
            rf"|(?<!\w)(?:{_UPPER}\. ?){{1,3}}{_NAME_WORD}(?!\w)"
        ),
        0.35,
    ),
    "TITLED_NAME": Pattern(
        re.compile(
            rf"(?<!\w)(?i:{_TITLE})\.? (?P<secret>{_LETTER}{{2,20}}(?: {_NAME_WORD}){{0,2}})(?!\w)"
        ),
        0.5,
    ),
    "FIELD": Pattern(
        re.compile(
            r"(?im)^[ \t>*-]{0,4}(?:[\w ]{0,20}\b)?(?:name|surname|recipient|addressee|consignee|"
            r"sender|contact|contact person|patient|payee|beneficiary|next of kin|attn\.?|address|"
            r"street|phone|tel\.?|telephone|mobile|fax|e-?mail|account|card|iban|passport|ssn|mrn)"
            r"(?: (?:no\.?|number|id))? ?[:=][ \t]*"
            r"(?P<secret>[^\s|;][^\n|;]{0,98})"
        ),
        0.5,
    ),
    "POSTCODE": Pattern(
        re.compile(
            r"(?<!\w)(?i:[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d"
            r"|[A-Z]{1,2}-\d{4,5})(?!\w)|(?<![\w-])[1-9]\d{3} ?[A-Z]{2}(?!\w)"
        ),
        0.6,
    ),
    "IP": Pattern(
        re.compile(
            r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])|(?<![\w:])(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?!\w)",
            re.IGNORECASE,
        ),
        0.8,
    ),
    "IPV6": Pattern(
        re.compile(
            r"(?<![\w:.])(?=[0-9a-f:]{0,39}::)(?=[a-f:]{0,39}\d)(?:::)?[0-9a-f]{1,4}"
            r"(?:::?[0-9a-f]{1,4}){0,7}(?:::|:\d{1,3}(?:\.\d{1,3}){3})?(?:%[\w.-]{1,15})?(?![\w:])",
            re.IGNORECASE,
        ),
        0.8,
        _ipv6,
    ),
    "PRIVATE_KEY": Pattern(
        re.compile(
            rf"-----BEGIN {_KEY_NAME}-----(?:(?:[^-]|-(?!----)){{1,16000}}-----END {_KEY_NAME}-----"
            r"|(?:(?:\s|\\[nr]){1,9}[A-Za-z0-9+/=]{16,100}){0,400})"
            r"|PuTTY-User-Key-File-\d: [\s\S]{1,8000}Private-MAC: \w{40,64}"
        ),
        0.95,
    ),
    "TOKEN": Pattern(re.compile(_TOKEN), 0.9),
    "URL_PASSWORD": Pattern(
        re.compile(r"://[^\s:/@?#]{0,64}:(?P<secret>[^\s/@]{1,128})(?=@)"),
        0.8,
    ),
    "CREDENTIAL": Pattern(
        re.compile(
            r"(?i:\bauthorization['\"]?[:=] ?['\"]?(?:bearer|basic|token) )"
            r"(?P<secret>[\w.~+/=-]{8,2000})"
        ),
        0.8,
    ),
    "PASSWORD": Pattern(
        re.compile(
            r"(?i:\b(?:pass(?:word|wd|phrase)|api[_ -]?key|secret[_ -]?(?:access[_ -]?)?key"
            r"|access[_ -]?(?:token|key)|client[_ -]?secret|auth[_ -]?token|account_?key|sig)"
            r"['\"]?(?: is)? ?[:=] ?['\"]?)"
            r"(?P<secret>(?=[a-z]{0,60}[\dA-Z_!#$%&*+@^~-])[^\s'\",;]{6,200})"
        ),
        0.8,
    ),
}

# The patterns of secrets that a line break, a tab or unusual spaces may divide. They read
# `plain_text.unwrapped`, and are stricter than the patterns above: columns of numbers and
# neighbouring lines would otherwise be secrets.
_UPPER_WORD = rf"{_UPPER}[\w'.]{{0,30}}"
WRAPPED: Mapping[str, Pattern] = {
    "PHONE": Pattern(
        re.compile(
            r"(?<![\w-])(?:\+ ?)?(?:\(\d{1,5}\)|\d{1,8})"
            r"(?:(?:[ \n][./()-]{0,2}|[./()-]{1,2}[ \n]?)\d{1,8}){1,7}(?!\w|-\d)"
        ),
        0.6,
        _wrapped_phone,
    ),
    "SSN": Pattern(re.compile(r"(?<![\w-])\d{3}[ \n-]\d{2}[ \n-]\d{4}(?![\w-])"), 0.9),
    "CARD": Pattern(re.compile(r"(?<![\w-])\d(?:[ \n-]?\d){11,18}(?![\w-])"), 0.9, _wrapped_card),
    "IBAN": Pattern(
        re.compile(
            r"(?<!\w)[A-Z]{2}\d{2}(?:[ \n-]?[A-Z0-9]{4}){2,7}(?:[ \n-]?[A-Z0-9]{1,3})?(?!\w)"
        ),
        0.9,
        _iban,
    ),
    "DATE": Pattern(
        re.compile(
            rf"(?<!\w)(?:\d{{1,2}}(?:st|nd|rd|th|\.)?[ \n-](?:of[ \n])?{_MONTH}[,.]?[ \n-]\d{{4}}"
            rf"|{_MONTH}[ \n-]\d{{1,2}}(?:st|nd|rd|th)?,?[ \n]\d{{4}}"
            r"|\d{1,2} ?[./-][ \n]?\d{1,2} ?[./-][ \n]?\d{4}"
            r"|(?:0?[1-9]|[12]\d|3[01])[ \n](?:0?[1-9]|1[0-2])[ \n](?:19|20)\d\d)(?!\w)"
        ),
        0.6,
    ),
    "ADDRESS": Pattern(
        re.compile(
            rf"(?<!\w)\d{{1,6}}[A-Za-z]?(?:-\d{{1,6}})?,?[ \n-](?:{_UPPER_WORD},?[ \n-]){{1,4}}"
            rf"{_STREET}(?:(?:,?[ \n](?:Apt|Suite|Unit|Flat)\.?[ \n]?\w{{1,8}})?"
            rf"(?:,?[ \n]{_UPPER_WORD}){{0,4}},?[ \n]\d{{4,6}}(?:-\d{{4}})?)?"
        ),
        0.7,
    ),
    "STREET": Pattern(
        re.compile(
            rf"(?<!\w)(?:{_UPPER_WORD}[ \n])?{_UPPER}[\w-]{{1,30}}{_STREET_END},?[ \n]"
            r"\d{1,5}[a-z]?(?!\w)"
            rf"|(?<!\w)\d{{1,5}}[a-z]?,?[ \n]{_STREET_START}[ \n](?:[\w'.-]{{1,20}}[ \n]){{0,3}}"
            rf"{_UPPER_WORD}|(?<!\w)P\.?[ \n]?O\.?[ \n]Box[ \n]\d{{1,6}}"
        ),
        0.6,
    ),
    "POSTCODE": Pattern(
        re.compile(
            r"(?<!\w)(?:[A-Z]{1,2}\d[A-Z\d]?[ \n]\d[A-Z]{2}|[A-Z]\d[A-Z][ \n]\d[A-Z]\d)(?!\w)"
        ),
        0.6,
    ),
    "EMAIL": Pattern(
        re.compile(r"[\w.+%-]{1,64}[ \n]?@[ \n]?[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"), 0.95
    ),
}


# The patterns of numbers with one unusual sign, such as _ | * and " - ", between all groups. A card
# and an IBAN have check digits, so every sign counts. Rows of tables have | between their cells.
_ANY_SIGN = r"(?P<sign> ?(?:[^\w\s]|_){1,2} ?)"
_SIGN = r"(?P<sign> ?[-_|~\u00b7\u2022\u2013\u2014]{1,2} ?| \. )"
_DATE_SIGN = r" ?[-_~\u2013\u2014] ?| \. "
_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
_NO_CELL_BEFORE, _NO_CELL_AFTER = r"(?<!\|)(?<!\| )", r"(?! ?\|)"
SEPARATED: Mapping[str, Pattern] = {
    "PHONE": Pattern(
        re.compile(
            rf"{_START}{_NO_CELL_BEFORE}(?:\+ ?)?\(?\d{{1,5}}\)?{_SIGN}\d{{2,8}}"
            rf"(?:(?P=sign)\d{{2,8}}){{0,6}}{_END}{_NO_CELL_AFTER}"
        ),
        0.6,
        _separated_phone,
    ),
    "SSN": Pattern(
        re.compile(
            rf"{_START}{_NO_CELL_BEFORE}\d{{3}}{_SIGN}\d{{2}}(?P=sign)\d{{4}}{_END}{_NO_CELL_AFTER}"
        ),
        0.9,
    ),
    "CARD": Pattern(
        re.compile(rf"{_START}\d{{4}}{_ANY_SIGN}\d{{4,6}}(?:(?P=sign)\d{{3,5}}){{1,3}}{_END}"),
        0.9,
        _wrapped_card,
    ),
    "IBAN": Pattern(
        re.compile(
            rf"{_START}[A-Z]{{2}}\d{{2}}{_ANY_SIGN}[A-Z0-9]{{4}}(?:(?P=sign)[A-Z0-9]{{1,4}}){{2,7}}{_END}"
        ),
        0.9,
        _iban,
    ),
    "DATE": Pattern(
        re.compile(
            rf"{_START}(?:\d{{1,2}}(?P<sign>{_DATE_SIGN})\d{{1,2}}(?P=sign)(?:19|20)\d\d"
            rf"|(?:19|20)\d\d(?P<year>{_DATE_SIGN})(?:0?[1-9]|1[0-2])(?P=year)"
            rf"(?:0?[1-9]|[12]\d|3[01])){_END}"
        ),
        0.6,
    ),
}

# These patterns also find titles and places. A policy with a trained detector omits these patterns,
# because the trained detector finds names better.
WEAK = frozenset({"NAME", "CAPITALS"})


class RegexDetector:
    """Finds the patterns in `labels`, or all patterns. `extra` adds your own patterns."""

    def __init__(
        self, labels: Sequence[str] | None = None, *, extra: Mapping[str, str] | None = None
    ) -> None:
        unknown = sorted(set(labels or ()) - PATTERNS.keys())
        if unknown:
            raise ParamsError(
                f"no pattern is called {', '.join(unknown)}. Use {', '.join(PATTERNS)}"
            )
        chosen = PATTERNS if labels is None else {label: PATTERNS[label] for label in labels}
        self._patterns = dict(chosen)
        self._wrapped = {label: own for label, own in WRAPPED.items() if label in chosen}
        self._separated = {label: own for label, own in SEPARATED.items() if label in chosen}
        for label, expression in (extra or {}).items():
            try:
                self._patterns[label] = Pattern(re.compile(expression), 1.0)
            except re.error as error:
                raise ParamsError(f"pattern {label} is not a regular expression: {error}") from None

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        return [_findings(text, self._patterns) for text in texts]

    def find_plain(self, texts: Sequence[str]) -> list[list[Finding]]:
        """Return the findings in texts of `plain_text.plain`, without PHONE: ranges of years and
        decimals have dashes, too. The stricter PHONE of `find_wrapped` reads these texts."""
        patterns = {label: own for label, own in self._patterns.items() if label != "PHONE"}
        return [_findings(text, patterns) for text in texts]

    def find_wrapped(self, texts: Sequence[str]) -> list[list[Finding]]:
        """Return the findings of the patterns `WRAPPED` in texts of `plain_text.unwrapped`."""
        return [_findings(text, self._wrapped) for text in texts]

    def find_separated(self, texts: Sequence[str]) -> list[list[Finding]]:
        """Return the findings of the patterns `SEPARATED` in texts of `plain_text.plain`."""
        return [_findings(text, self._separated) for text in texts]


def _findings(text: str, patterns: Mapping[str, Pattern]) -> list[Finding]:
    return [each for label, own in patterns.items() for each in own.findings(text, label)]


_PLAIN = re.compile(r"[a-z,.;:!?'’ \n\t()-]*")
_SPEAKER = re.compile(r"(?m)^[A-Z]{2,8}: ")
_AFTER_STOP = re.compile(
    r"(?:\A|(?<=[.!?…\n])|(?<=[.!?…] )|(?<=: ))\s*[\"'“‘(]?[A-Z](?=[a-z'’ ,])|\bI\b"
)


class PlainWords:
    """A conservative policy without a model: only lower-case words and punctuation are public.

    Capitals are allowed at the start of a sentence, in "I", and in a speaker's tag at the start of
    a line ("USR: "). A digit, a name inside a sentence or a sign such as @ makes a text private.
    The policy misses secrets in lower-case words (a diagnosis) and names at the start of a
    sentence. So delta_2 of this policy must be measured.
    """

    def is_public(self, texts: Sequence[str]) -> list[bool]:
        spoken = (_SPEAKER.sub("", text) for text in texts)
        return [_PLAIN.fullmatch(_AFTER_STOP.sub("", text)) is not None for text in spoken]


def described() -> dict[str, tuple[str, int, float]]:
    """Return each expression with its flags and score, as JSON for cache keys.

    The result contains no additional tests of a match, such as a card's check digit. The cache key
    contains the version of the additional tests.
    """
    expressions = {
        label: (pattern.expression, pattern.score) for label, pattern in PATTERNS.items()
    }
    expressions |= {
        f"wrapped {label}": (own.expression, own.score) for label, own in WRAPPED.items()
    }
    expressions |= {
        f"separated {label}": (own.expression, own.score) for label, own in SEPARATED.items()
    }
    expressions |= {
        "plain": (_PLAIN, 0.0),
        "speaker": (_SPEAKER, 0.0),
        "after a stop": (_AFTER_STOP, 0.0),
    }
    return {
        name: (regex.pattern, regex.flags, score) for name, (regex, score) in expressions.items()
    }
