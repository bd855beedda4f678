"""Measures the accuracy of attribute values that are read from texts.

    python -m benchmarks.extraction                       # 1,000 test texts of every data set

Reads ../shared/data. The table shows the accuracy on the test split. Zero-shot uses the
descriptions below. The author of the descriptions knew only the names of the values. "calibrated"
uses 50 labelled donated examples from the training split (mean of 5 disjoint samples). "told 75%"
shows a threshold and the accuracy above it: 75% of the texts are above the threshold. The first
baseline is the most common value of the training split. The second baseline is TF-IDF with logistic
regression, trained on 50 texts and on all training texts.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sugarbush.attributes.zero_shot import calibrate, description_vectors, nearest_values
from sugarbush.data.schema import Attribute
from sugarbush.embedding.cache import EmbeddingCache
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
DONATED = 50
DRAWS = 5


@dataclass(frozen=True, kw_only=True)
class Task:
    """An attribute of a data set, with several descriptions of each value."""

    folder: str
    column: str
    described: dict[str, list[str]]

    @property
    def attribute(self) -> Attribute:
        return Attribute.model_validate(
            {
                "name": self.column,
                "values": list(self.described),
                "zero_shot": self.described,
            }
        )


TASKS = (
    Task(
        folder="cfpb_complaints",
        column="product_group",
        described={
            "Credit reporting": [
                "a complaint about errors on a credit report",
                "Equifax, Experian or TransUnion report an account that is not mine",
                "an inquiry or account on my credit file that must be removed",
            ],
            "Debt collection": [
                "a complaint about a debt collector",
                "a collection agency calls about a debt that I do not owe",
                "they have not validated the debt they try to collect",
            ],
            "Mortgage": [
                "a complaint about a mortgage or home loan",
                "the servicer mishandled my escrow, modification or foreclosure",
                "refinancing my house",
            ],
            "Credit card or prepaid card": [
                "a complaint about a credit card or prepaid card",
                "a disputed charge, late fee or interest on my card",
                "my card application or rewards bonus was refused",
            ],
            "Bank account": [
                "a complaint about a checking or savings account",
                "the bank closed my account or holds my deposit",
                "overdraft fees and unauthorized withdrawals from my bank account",
            ],
            "Consumer or vehicle loan": [
                "a complaint about a car loan or lease",
                "an auto loan, vehicle repossession or installment loan",
                "financing a vehicle at a dealership",
            ],
            "Student loan": [
                "a complaint about a student loan",
                "the servicer of my student loans, repayment plan or forgiveness",
                "loans for college or university",
            ],
            "Payday, title or personal loan": [
                "a complaint about a payday loan, title loan or personal loan",
                "a short-term online lender with very high interest",
                "a cash advance that was taken from my account",
            ],
            "Money transfer or virtual currency": [
                "a complaint about a money transfer or virtual currency",
                "money sent by wire, PayPal, Zelle or Cash App was lost",
                "bitcoin or another cryptocurrency on an exchange",
            ],
        },
    ),
    Task(
        folder="yelp",
        column="category",
        described={
            "Restaurants": [
                "a review of a restaurant",
                "the food, the dishes and our waiter at dinner or lunch",
                "a place to eat: burgers, pizza, sushi, tacos or breakfast",
            ],
            "Bars": [
                "a review of a bar or pub",
                "drinks, beer, cocktails and the bartender",
                "nightlife with a crowd and happy hour",
            ],
            "Shopping": [
                "a review of a shop or store",
                "clothes, shoes, books or gifts that I bought at the store",
                "the selection and the prices in a mall or boutique",
            ],
            "Event Planning & Services": [
                "a review of an event service",
                "our wedding, party, caterer or photographer",
                "a venue and its staff for an event",
            ],
            "Beauty & Spas": [
                "a review of a beauty salon or spa",
                "my haircut, nails, massage or facial",
                "the stylist at the hair salon",
            ],
            "Hotels & Travel": [
                "a review of a hotel",
                "our room, the bed, the front desk and checking in",
                "an airport, flight, rental car or tour",
            ],
            "Arts & Entertainment": [
                "a review of an entertainment venue",
                "a museum, theater, concert, cinema or show",
                "an attraction for a day out, with tickets",
            ],
            "Health & Medical": [
                "a review of a doctor or dentist",
                "the clinic, my appointment, the nurse and the treatment",
                "an optician, pharmacy or chiropractor",
            ],
            "Home & Garden": [
                "a review of a home and garden shop",
                "furniture, appliances, plants or hardware for my house",
                "a mattress, flooring or home decor store",
            ],
            "Grocery": [
                "a review of a grocery store",
                "a supermarket with produce, meat and groceries",
                "a farmers market or food shop",
            ],
        },
    ),
    Task(
        folder="yelp",
        column="stars",
        described={
            "1": [
                "a one-star review: terrible, the worst, never again",
                "awful, rude, disgusting, a complete waste of money",
            ],
            "2": [
                "a two-star review: disappointing, below average",
                "not good, I expected more and probably will not return",
            ],
            "3": [
                "a three-star review: average, just okay",
                "some good things and some bad things, nothing special",
            ],
            "4": [
                "a four-star review: good, I liked it with a small complaint",
                "really nice, I would come back",
            ],
            "5": [
                "a five-star review: amazing, the best ever",
                "excellent, I love this place and recommend it to everybody",
            ],
        },
    ),
    Task(
        folder="medical_abstracts",
        column="condition",
        described={
            "neoplasms": [
                "an abstract about cancer and tumors",
                "carcinoma, lymphoma, leukemia, metastasis, chemotherapy",
                "malignant neoplasms and the survival of oncology patients",
            ],
            "digestive system diseases": [
                "an abstract about diseases of the digestive system",
                "gastric ulcer, bowel, colon, liver cirrhosis, bile duct",
                "gastroenterology and endoscopy",
            ],
            "nervous system diseases": [
                "an abstract about diseases of the nervous system",
                "brain, stroke, epilepsy, multiple sclerosis, neuropathy",
                "neurology and the spinal cord",
            ],
            "cardiovascular diseases": [
                "an abstract about diseases of the heart and blood vessels",
                "myocardial infarction, coronary artery, hypertension, arrhythmia",
                "cardiology and heart surgery",
            ],
            "general pathological conditions": [
                "an abstract about general pathological conditions",
                "infection, inflammation, pain, complications, syndromes and symptoms",
                "a clinical study of patients with various conditions",
            ],
        },
    ),
    Task(
        folder="airline_tweets",
        column="sentiment",
        described={
            "negative": [
                "an angry complaint to an airline",
                "my flight was cancelled or delayed and nobody helps, terrible service",
                "you lost my bag and left me on hold for hours",
            ],
            "neutral": [
                "a question to an airline",
                "how can I change my flight, do you fly to this city",
                "a statement about a flight with no feeling",
            ],
            "positive": [
                "a thank-you to an airline",
                "great flight and an amazing crew, I love you",
                "thanks for the quick help, best airline",
            ],
        },
    ),
)


def part(folder: str, name: str, *, most: int | None) -> pd.DataFrame:
    """Return at most `most` rows of the split `name`, ordered by a hash of their ids."""
    frame = pd.read_parquet(DATA / folder / f"{folder}.parquet")
    frame = frame[frame["split"] == name]
    by_hash = frame["id"].map(lambda one: hashlib.sha256(one.encode()).hexdigest())
    return frame.iloc[np.argsort(by_hash.to_numpy())[:most]]


def reference(texts: list[str], labels: NDArray[np.int64], asked: list[str]) -> NDArray[np.int64]:
    """Train TF-IDF and logistic regression on `texts`, and return predicted labels of `asked`."""
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2 if len(texts) > 500 else 1, sublinear_tf=True),
        LogisticRegression(max_iter=1000, C=10),
    )
    return np.asarray(model.fit(texts, labels).predict(asked))


def evaluate(task: Task, encoder: Encoder, *, texts: int) -> str:
    attribute = task.attribute
    test, train = part(task.folder, "test", most=texts), part(task.folder, "train", most=None)
    truth = np.array([attribute.code(v) for v in test[task.column]])
    given = np.array([attribute.code(v) for v in train[task.column]])
    places = description_vectors(attribute, encoder.encode)
    cosines = encoder.encode(list(test["text"])) @ places.T
    donated = train.iloc[: DONATED * DRAWS]
    donated_cosines = encoder.encode(list(donated["text"])) @ places.T

    def accuracy(codes: NDArray[np.int64]) -> float:
        return float((codes == truth).mean())

    plain = nearest_values(cosines, offsets=(), abstain=-1)
    calibrated, small = [], []
    for draw in range(DRAWS):
        shown = slice(draw * DONATED, (draw + 1) * DONATED)
        offsets = calibrate(donated_cosines[shown], given[shown])
        calibrated.append(accuracy(nearest_values(cosines, offsets=offsets, abstain=-1)))
        shown_texts = list(donated["text"].iloc[shown])
        small.append(accuracy(reference(shown_texts, given[shown], list(test["text"]))))
    threshold = float(np.quantile(cosines.max(axis=1), 0.25))
    told = plain != len(attribute.values)
    told &= cosines.max(axis=1) >= threshold
    trained = accuracy(reference(list(train["text"]), given, list(test["text"])))
    common = accuracy(np.full(len(truth), np.bincount(given).argmax()))
    return (
        f"| {task.folder} | {task.column} | {len(attribute.values)} | {len(truth):,} "
        f"| {common:.3f} | {accuracy(plain):.3f} | {np.mean(calibrated):.3f} "
        f"({min(calibrated):.3f}-{max(calibrated):.3f}) | {np.mean(small):.3f} | {trained:.3f} "
        f"| {threshold:.2f}: {float((plain == truth)[told].mean()):.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=1000)
    asked = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"skipped: the folder {DATA} does not exist")
    encoder = Encoder(
        EmbeddingSettings(model="bundled", max_tokens=128),
        cache=EmbeddingCache(Path(".cache/embeddings")),
    )
    print(
        "| set | attribute | values | texts | most common | zero-shot | calibrated on 50 "
        "| TF-IDF on 50 | TF-IDF on all | told 75%: threshold, accuracy |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for task in TASKS:
        print(evaluate(task, encoder, texts=asked.texts), flush=True)


if __name__ == "__main__":
    main()
