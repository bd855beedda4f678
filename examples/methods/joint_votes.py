"""Votes on text and attributes together, and variations with examples from the same cluster.

The first texts have the attribute values of rows of the DP table. In each round, a record votes for
the candidates that are near to it in text *and* attribute values. A variation is a new text with
the attribute values of a survivor, written like other survivors of its cluster.

Guarantee: each round is one noisy sum. What a record gives depends on its embedding and its
attribute values alone, and its L2 norm is one vote, as for every `NearestVotes`. The rest is
post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush import extend


@dataclass(frozen=True, kw_only=True)
class JointVotes(extend.NearestVotes):
    """A record votes for the nearest candidates in the space of embeddings and attribute values.

    Each value of an attribute is a fixed random direction of length `weight`, so records and
    candidates with other values are farther apart. A candidate without a
    requested value (code -1) lies in the middle.
    """

    weight: float = 0.5

    @property
    def reads_codes(self) -> bool:
        return True

    def points(
        self, embeddings: NDArray[np.float32], codes: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        columns = [embeddings]
        for number, values in enumerate(codes.T):
            directions = np.zeros((len(values), 8), dtype=np.float32)
            for code in np.unique(values[values >= 0]).tolist():
                vector = extend.public_rng(number, "value", code).standard_normal(8)
                directions[values == code] = self.weight * vector / np.linalg.norm(vector)
            columns.append(directions)
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True, kw_only=True)
class LikeItsCluster(extend.Varier):
    """A variation is a new text with a survivor's values, and survivors of its cluster as examples.

    `clusters` is the number of clusters of a round, and `examples` the number of texts in a prompt.
    """

    copies: int
    clusters: int = 8
    examples: int = 4

    def requests(
        self,
        parents: extend.Population,
        *,
        schema: sb.Schema,
        encode: extend.Encode,
        number: int,
        seed: int,
    ) -> tuple[extend.Request, ...]:
        from sklearn.cluster import KMeans

        rng = extend.public_rng(seed, "clusters", number)
        embedded = encode(parents.texts)
        count = min(self.clusters, len(np.unique(embedded, axis=0)))  # survivors may be equal
        model = KMeans(count, random_state=int(rng.integers(2**31)), n_init=1)
        cluster = model.fit_predict(embedded)
        requests: list[extend.Request] = []
        for index, codes in enumerate(parents.codes.tolist()):
            others = np.setdiff1d(np.flatnonzero(cluster == cluster[index]), [index])
            for copy in range(self.copies):
                near = rng.permutation(others)[: self.examples - 1]
                requests.append(
                    extend.RandomRequest(
                        subject=schema.subject,
                        attributes=tuple(
                            (attribute.name, attribute.domain[code])
                            for attribute, code in zip(schema.attributes, codes, strict=True)
                            if 0 <= code < len(attribute.domain) - 1  # the last value is `other`
                        ),
                        examples=tuple(parents.texts[i] for i in (index, *near)),
                        words=max(1, len(parents.texts[index].split())),
                        sample=extend.seed_of(seed, "like", number, index, copy) >> 1,
                    )
                )
        return tuple(requests)

    def longest_request(self, first: extend.Request) -> extend.Request:
        return replace(first, examples=("word " * (first.words or 0),) * self.examples)


class Joint(extend.PromptSettings):
    """Rounds of votes on the joint space.

    >>> [(request.name, request.count) for request in Joint(rounds=3).budget_requests()]
    [('metadata', 0), ('votes:joint', 3)]
    """

    name: ClassVar[str] = "joint"

    rounds: extend.Count = 2
    """Number of rounds of private votes. Each round spends budget."""
    variations: extend.AtLeastOne = 4
    """Number of candidates from each survivor: the survivor itself and its variations."""
    votes: extend.AtLeastOne = 5
    """Number of nearest candidates that share a record's vote."""

    def parts(self) -> extend.Parts:
        return extend.Parts(
            start=extend.FromTable(self.prompts()),
            scorer=JointVotes(votes=self.votes),
            selector=extend.ByRank(),
            varier=LikeItsCluster(copies=self.variations - 1),
            rounds=self.rounds,
            enlarger=extend.MostVoted(),
        )
