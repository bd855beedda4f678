"""Generated texts: spans are where the values are, and no text depends on another."""

import datetime
import sys
from types import SimpleNamespace

import pytest

from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.redactor.labels import kind_of_label
from sugarbush.redactor.texts import generated_texts
from sugarbush.redactor.values import (
    CHECKED_LOCALES,
    KINDS,
    LOCALES,
    SECRET_KINDS,
    pool,
    spelled_out,
)
from sugarbush.training.crt.patterns import PATTERNS


@pytest.fixture(scope="module")
def texts():
    return list(generated_texts(3, 150))


@pytest.mark.slow
def test_every_kind_occurs_and_spans_are_disjoint_parts_of_their_text(texts):
    kinds = set()
    for one in texts:
        end_before = 0
        for start, end, kind in one.spans:
            assert end_before <= start < end <= len(one.text)
            end_before = end
            kinds.add(kind)
    assert kinds == set(KINDS)


def test_a_text_depends_on_its_number_alone(texts):
    again = list(generated_texts(3, 20))
    assert again == texts[:20]
    assert list(generated_texts(4, 20)) != again


class Later(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(days=40)

    today = now


class LaterDay(datetime.date):
    @classmethod
    def today(cls):
        return datetime.date.today() + datetime.timedelta(days=40)


def test_no_value_depends_on_the_day(monkeypatch):
    """Faker makes some social security numbers from birth dates, which it counts from today."""
    made = [pool.__wrapped__(locale, "ssn") for locale in (*LOCALES, *CHECKED_LOCALES)]
    later = {
        datetime.datetime: Later,
        datetime.date: LaterDay,
        datetime: SimpleNamespace(**vars(datetime) | {"datetime": Later, "date": LaterDay}),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("faker.providers"):
            for own, value in list(vars(module).items()):
                if value in (datetime, datetime.date, datetime.datetime):
                    monkeypatch.setattr(module, own, later[value])
    assert made == [pool.__wrapped__(locale, "ssn") for locale in (*LOCALES, *CHECKED_LOCALES)]


def test_marks_and_slots_never_stay_in_a_text(texts):
    for one in texts:
        assert not set(one.text) & set("\x02\x03\x04{}")


def test_the_check_texts_have_locales_of_their_own(texts):
    assert not set(LOCALES) & set(CHECKED_LOCALES)
    assert list(generated_texts(3, 5, checked=True)) != texts[:5]


def test_some_texts_are_in_lower_case_and_some_have_no_secret(texts):
    assert any(one.text.islower() and one.spans for one in texts)
    assert any(not {k for *_, k in one.spans} & set(SECRET_KINDS) for one in texts)


def test_some_texts_are_not_english_and_the_thresholds_are_chosen_without_them():
    def greek(checked):
        return sum("ι" in one.text for one in generated_texts(3, 400, checked=checked))

    assert greek(checked=False) and not greek(checked=True)


def test_a_number_is_spelled_out_completely():
    rng = SeededRandom(1, "spoken")
    for _ in range(50):
        said = spelled_out("+44 7700-900-118", rng)
        assert not any(c.isdigit() for c in said)


KINDS_OF_LABELS = {
    "NAME": "NAME TITLED_NAME HANDLE CAPITALS PERSON PER B-PER recipient_name firstName FIRSTNAME "
    "FULLNAME MIDDLENAME names",
    "ADDRESS": "ADDRESS STREET ZIP_ADDRESS MILITARY_ADDRESS POSTCODE STREET_ADDRESS ZIP_CODE Post "
    "Addr CA_POSTAL_CODE UK_POSTCODE DE_PLZ address_line_2",
    "PHONE": "PHONE PHONE_NUMBER ZA_MOBILE_NUMBER ZA_TELEPHONE_NUMBER HOTEL_PHONE phoneNumber",
    "EMAIL": "EMAIL EMAIL_ADDRESS e-mail WORK_EMAIL",
    "NUMBER": "SSN CARD IBAN ORDER_NUMBER TRACKING_NUMBER REFERENCE CODE IDENTIFIER IP IP_ADDRESS "
    "MAC_ADDRESS CREDIT_CARD IBAN_CODE US_SSN US_DRIVER_LICENSE UK_DRIVING_LICENCE US_ITIN "
    "US_PASSPORT US_BANK_NUMBER US_MBI US_NPI MEDICAL_LICENSE CRYPTO UK_NHS UK_NINO AU_ABN AU_ACN "
    "AU_TFN AU_MEDICARE IN_PAN IN_AADHAAR IN_VOTER ES_NIF ES_NIE PL_PESEL IT_FISCAL_CODE SG_UEN "
    "SG_NRIC_FIN DE_TAX_ID DE_VAT_ID DE_KFZ DE_HEALTH_INSURANCE DE_SOCIAL_SECURITY KR_RRN NG_NIN "
    "FI_PERSONAL_IDENTITY_CODE SE_PERSONNUMMER TH_TNIN TR_LICENSE_PLATE UK_VEHICLE_REGISTRATION "
    "ABA_ROUTING_NUMBER ZA_COMPANY_REGISTRATION CANARY_ID Ref Id UUID IPV6 PRIVATE_KEY TOKEN "
    "URL_PASSWORD CREDENTIAL PASSWORD",
    "PLACE": "PLACE LOC GPE FAC LOCATION CITY",
    "ORGANIZATION": "ORGANIZATION ORG COMPANY_NAME",
    "": "DATE FIELD NORP NRP PRODUCT EVENT WORK_OF_ART LAW LANGUAGE TIME PERCENT MONEY QUANTITY "
    "ORDINAL CARDINAL MISC DATE_TIME AGE TITLE PREFIX URL DOMAIN_NAME",
}  # of our patterns, Presidio, spaCy and data sets


def test_labels_of_other_schemas_become_kinds():
    wanted = {label: kind for kind, labels in KINDS_OF_LABELS.items() for label in labels.split()}
    assert {label: kind_of_label(label) for label in wanted} == wanted
    assert PATTERNS.keys() <= wanted.keys()


UNLISTED = (
    "ACCOUNT_NO ACCOUNTNUMBER CARDNUMBER IDNUM HOSPITAL MEDICALRECORD PASSPHRASE DATE_OF_BIRTH "
    "STAFF имя 电话 7 hotelStars"
)


@pytest.mark.parametrize("label", UNLISTED.split())
def test_a_label_that_nobody_listed_is_a_secret(label):
    assert kind_of_label(label) in SECRET_KINDS
