"""Tests that unusual characters and line breaks hide no secret, and make no words secret."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.training.crt.findings import Finding
from sugarbush.training.crt.patterns import RegexDetector
from sugarbush.training.crt.plain_text import plain, unwrapped, visible
from sugarbush.training.crt.redact import MASK, Policy

SEPARATORS = {
    "space": " ",
    "two spaces": "  ",
    "no-break space": "\u00a0",
    "narrow no-break space": "\u202f",
    "thin space": "\u2009",
    "figure space": "\u2007",
    "en space": "\u2002",
    "ideographic space": "\u3000",
    "hyphen": "-",
    "no-break hyphen": "\u2011",
    "figure dash": "\u2012",
    "en dash": "\u2013",
    "minus": "\u2212",
    "full width hyphen": "\uff0d",
    "soft hyphen and hyphen": "\u00ad-",
    "zero-width space": "\u200b",
    "word joiner and space": "\u2060 ",
    "mark of direction": " \u200e",
    "tab": "\t",
    "line break": "\n",
    "line break of Windows": "\r\n",
    "line break of old Macs": "\r",
    "line break and margin": "\n   ",
    "quoted e-mail": "\n> ",
    "line separator": "\u2028",
    "next line": "\x85",
    "hyphen of Hebrew": "\u05be",
    "hyphen bullet": "\u2043",
    "swung dash": "\u2053",
    "wave dash": "\u301c",
    "empty Braille cell": "\u2800",
    "filler of Hangul": "\u3164",
}
SECRETS = {
    "phone, France": "06{0}12{0}34{0}56{0}78",
    "phone, United States": "555{0}010{0}1234",
    "phone, with country": "+49{0}30{0}1234567",
    "phone, Britain": "020{0}7946{0}0018",
    "IBAN": "DE89{0}3704{0}0044{0}0532{0}0130{0}00",
    "card": "4111{0}1111{0}1111{0}1111",
    "card of fifteen digits": "3782{0}822463{0}10005",
    "social security number": "078{0}05{0}1120",
    "date": "4{0}March{0}1985",
    "address": "12{0}Main{0}Street",
    "address of two words": "221b{0}Upper{0}Baker{0}Street",
}
POLICY = Policy([RegexDetector()])
STRONG = Policy([RegexDetector(["PHONE", "SSN", "CARD", "IBAN", "IDENTIFIER", "CODE"])])


@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_separator_hides_a_secret(secret: str, separator: str) -> None:
    written = secret.format(separator)
    (redacted,) = POLICY.redact([f"Please use {written} today."])
    left = redacted.replace(MASK, "")
    assert not any(character.isdigit() for character in left), redacted
    assert redacted.startswith("Please use <MASK>") and redacted.endswith("today.")


SIGNS = [
    " - ", " \u2013 ", " \u2014 ", " . ", "_", " _ ", "__", "|", " | ", "~", "\u00b7", "\u2022",
    " \u2022 ", "&nbsp;", "&amp;nbsp;", "&#160;", "&#xA0;", "&ensp;", "&thinsp;", "&shy;",
    "&ndash;", "&#8209;", "&zwnj;", "<br>", "<br />", "%20",
]  # fmt: skip
NUMBERS = {name: secret for name, secret in SECRETS.items() if "{0}March" not in secret}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("secret", [n for n in NUMBERS.values() if "Street" not in n])
def test_no_sign_and_no_entity_of_html_hides_a_number(secret: str, sign: str) -> None:
    (redacted,) = POLICY.redact([f"Please use {secret.format(sign)} today."])
    assert not any(character.isdigit() for character in redacted), redacted
    assert redacted.startswith("Please use <MASK>") and redacted.endswith("today.")


@pytest.mark.parametrize("sign", ["*", ":", ", ", "+", "=", "'", "; "])
@pytest.mark.parametrize("name", ["card", "IBAN"])
def test_no_sign_hides_a_number_with_check_digits(name: str, sign: str) -> None:
    (redacted,) = POLICY.redact([f"Please use {SECRETS[name].format(sign)} today."])
    assert not any(character.isdigit() for character in redacted), redacted


@pytest.mark.parametrize(
    "text",
    [
        "| 555 | 010 | 1234 | 5 |",
        "| 078 | 05 | 1120 |",
        "seats 10 - 20 - 30",
        "from 2019 - 2021 and 2022 - 2023",
        "page 12 - 14",
        "0 - 100 and 00 - 99",
        "the score was 21 - 19, 15 - 21",
        "parts x_1_2_3 and 100_200_300",
        "R&amp;D &lt;b&gt; 5 &nbsp; 6",
        "AB12 | CD34 | EF56",
        "50%20 off",
    ],
)
def test_tables_ranges_and_names_of_parts_are_no_numbers_of_people(text: str) -> None:
    assert POLICY.redact([text]) == [text]


@pytest.mark.parametrize("date", ["04{0}03{0}1985", "12{0}11{0}1985", "31{0}1{0}2024"])
@pytest.mark.parametrize(
    "separator",
    [*SEPARATORS.values(), " - ", " \u2013 ", " . ", ". ", " / ", "\u00a0\u2212\u00a0"],
)
def test_no_separator_hides_a_date_in_digits(date: str, separator: str) -> None:
    (redacted,) = POLICY.redact([f"born {date.format(separator)} here"])
    assert not any(character.isdigit() for character in redacted), redacted
    assert redacted.startswith("born <MASK>") and redacted.endswith("here")


@pytest.mark.parametrize(
    "digits",
    [
        "０１２３４５６７８９",
        "٠١٢٣٤٥٦٧٨٩",
        "۰۱۲۳۴۵۶۷۸۹",
        "०१२३४५६७८९",
        "০১২৩৪৫৬৭৮৯",
        "๐๑๒๓๔๕๖๗๘๙",
        "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗",
        "𝟶𝟷𝟸𝟹𝟺𝟻𝟼𝟽𝟾𝟿",
    ],
)
@pytest.mark.parametrize("secret", ["06 12 34 56 78", "4111-1111-1111-1111", "078-05-1120"])
def test_digits_of_every_script_are_digits(secret: str, digits: str) -> None:
    written = secret.translate({ord(str(i)): digits[i] for i in range(10)})
    assert STRONG.redact([f"Use {written} today."]) == ["Use <MASK> today."]


@pytest.mark.parametrize(
    "written",
    [
        "ｊａｎｅ．ｄｏｅ＠ｅｘａｍｐｌｅ．ｃｏｍ",
        "jane.doe\u200b@exam\u00adple.com",
        "jane.doe\u00a0@\u00a0example.com",
        "jane.doe\n@example.com",
        "jane.doe [at] example.com",
        "jane.doe(at)example.com",
        "jane.doe {at} mail.example.com",
        "jane.doe <at> example.com",
        "jane.doe [at]\nexample.com",
        "jane.doe [ät] example.de",
        "jane.doe(@)example.com",
        "jane.doe [@] example [.] com",
        "jane.doe [at] example [dot] com",
        "jane.doe (AT) example (DOT) com",
        "jane.doe at example dot com",
        "jane.doe AT mail dot example dot org",
        "jane.doe [at] example [punkt] com",
        "jane.doe_at_example.com",
        "jane.doe -at- example.com",
        "jane.doe&#64;example.com",
        "jane.doe&commat;example.com",
        "jane.doe%40example.com",
        "jane.doe\\@example.com",
        "jane.doe@example,com",
        "jane.doe\ufe6bexample.com",
        "jane.doe@[192.168.0.1]",
        '"jane doe"@example.com',
    ],
)
def test_an_address_of_mail_in_unusual_characters_is_masked(written: str) -> None:
    assert POLICY.redact([f"write to {written} today"]) == [f"write to {MASK} today"]


@pytest.mark.parametrize(
    "text",
    [
        "We were at a dot of land, and look at this dot in it.",
        "I was (at) cafe. It was late.",
        "It was sold [at] once. Then we left.",
        "stay-at-home work and a look_at_me name",
        "Meet me at noon and not at example dotted",
    ],
)
def test_words_with_at_and_dot_are_no_address(text: str) -> None:
    assert POLICY.redact([text]) == [text]


@given(st.text(alphabet="1aA &;#x0nbsp<br/>_-|%4@.\u00a0\u2028", max_size=40))
def test_the_places_of_plain_characters_are_in_the_text(text: str) -> None:
    for view in (plain(text), unwrapped(text)):
        spans = [view.span(i, i + 1) for i in range(len(view.text))]
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


TOKENS = {
    "JWT": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS secret": "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "GitHub": "ghp_" + "aB3dE6gH9k" * 4,
    "GitHub, fine-grained": "github_pat_" + "aB3dE6gH9k" * 6,
    "GitLab": "glpat-" + "aB3dE6gH9k" * 2,
    "OpenAI": "sk-" + "aB3dE6gH9k" * 5,
    "OpenAI, project": "sk-proj-" + "aB3_E6gH-k" * 8,
    "Anthropic": "sk-ant-api03-" + "aB3_E6gH-k" * 8,
    "Stripe": "sk_live_" + "aB3dE6gH9k" * 3,
    "Slack": "xoxb-123456789012-1234567890123-" + "aB3dE6gH9k" * 2,
    "Slack hook": "https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24,
    "Google": "AIza" + "aB3dE6gH9k" * 3 + "aB3dE",
    "Hugging Face": "hf_" + "aBcdEfgHjk" * 3 + "abcd",
    "npm": "npm_" + "aB3dE6gH9k" * 3 + "aB3dE6",
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + "aB3dE6gH9k" * 5,
    "SendGrid": "SG." + "aB3dE6gH9k" * 2 + "aB." + "aB3dE6gH9k" * 4 + "aB3",
    "Telegram": "1234567890:AA" + "aB3dE6gH9k" * 3 + "aB3",
    "Databricks": "dapi" + "0123456789abcdef" * 2,
    "DigitalOcean": "dop_v1_" + "0123456789abcdef" * 4,
    "password in a URL": "postgres://shop:hunter2!x@db.example/orders",
    "bearer": "Authorization: Bearer aBcdEfgHjkLmnOpqRstUvw",
    "password": "password: Tr0ub4dor&3",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA" + "aB3/E6+H9k" * 5
    + "\n-----END RSA PRIVATE KEY-----",
    "private key with headers": "-----BEGIN EC PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n\r\n"
    + "aB3/E6+H9k" * 6 + "\r\n-----END EC PRIVATE KEY-----",
    "private key without an end": "-----BEGIN PRIVATE KEY-----\n" + ("aB3/E6+H9k" * 6 + "\n") * 3,
    "private key in JSON": r"-----BEGIN PRIVATE KEY-----\nMIIEvQ" + "aB3/E6+H9k" * 6
    + r"\n-----END PRIVATE KEY-----\n",
    "IPv6": "2001:db8::8a2e:370:7334",
    "IPv6, whole": "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
    "IPv6 of a link": "fe80::1ff:fe23:4567:890a%eth0",
    "IPv6 with IPv4": "::ffff:192.0.2.128",
    "IPv6 of a network": "2001:db8:1234::",
}  # fmt: skip


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_tokens_and_addresses_of_services_are_masked(token: str) -> None:
    """`secret` is the part that nobody may read."""
    secret = token.rpartition(" ")[2] if ": " in token and "-----" not in token else token
    secret = secret.rpartition("=")[2] if secret.startswith("aws") else secret
    secret = "hunter2!x" if "hunter2!x" in secret else secret
    secret = secret.partition("/services/")[2] or secret
    (redacted,) = POLICY.redact([f"see this {token} here"])
    assert all(piece not in redacted for piece in secret.split() if len(piece) > 4), redacted
    assert redacted.startswith("see this ") and redacted.endswith("here")


@pytest.mark.parametrize(
    "text",
    [
        "in the years 2019\n2020\n2021 it rose",
        "12\t345\t678\t901",
        "1234\t5678\t9012",
        "from 1990–2010 on pages 1234–1238",
        "the interval was 102.5–135.2 and 1\u00a0234\u00a0567 people came",
        "std::vector and a::b and abc::Def at 12:30:45",
        "0.123\t0.456\t0.789",
        "at room 4\nMarch was cold",
        "it was 10\nwe took the long way home",
        "I use sk-learn-contrib and hf_hub, re_match and co-authors",
        "the password: please send it",
        "I know the token and the key",
        "row 12\nrow 13\nrow 14",
        "chapter 3\n\n12 34 was next",
    ],
)
def test_numbers_in_columns_ranges_and_words_of_code_are_no_secrets(text: str) -> None:
    """The masks of the plain patterns in ASCII are not the matter here."""
    labels = ["PHONE", "SSN", "CARD", "IBAN", "DATE", "ADDRESS", "IPV6", "TOKEN", "PASSWORD"]
    assert Policy([RegexDetector(labels)]).redact([text]) == [text]


@given(
    st.text(
        alphabet=st.sampled_from("aé1٣ \t\n\r\u00a0\u00ad\u200b\u2013\u2014０>(.)"), max_size=40
    )
)
def test_each_plain_character_is_mapped_to_its_own_place(text: str) -> None:
    for view in (plain(text), unwrapped(text)):
        places = [view.span(i, i + 1) for i in range(len(view.text))]
        assert places == sorted(places)
        assert all(0 <= start < end <= len(text) for start, end in places)
        assert all(a[1] <= b[0] for a, b in pairwise(places))
        for (start, end), character in zip(places, view.text, strict=True):
            if character.isalnum() and character.isascii():
                assert visible(text[start:end]).strip() == character
    assert len(visible(text)) == len(text)


class Words:
    """A detector that finds one word, as a trained detector or Presidio would."""

    def find(self, texts: list[str]) -> list[list[Finding]]:
        found = [(text, text.find("Anna-Berg 12")) for text in texts]
        return [[Finding(at, at + 12, "NAME", 1.0)] if at >= 0 else [] for _, at in found]


@pytest.mark.parametrize(
    "secret", ["Anna-Berg 12", "Anna\u2013Berg\u00a0１２", "An\u00adna\u2011Berg\u200912"]
)
def test_every_detector_reads_plain_characters(secret: str) -> None:
    policy = Policy([Words()])  # type: ignore[list-item]
    assert policy.redact([f"I am Dr.\u00a0{secret}!"]) == ["I am <MASK>!"]
    ((span,),) = policy.spans([f"I am {secret}!"])
    assert f"I am {secret}!"[span.start : span.end] == secret
