"""The toy world of the cartridges: a document of facts, questions about it, and the memories that answer them.

    attention = softmax(20 q . K^T) over the cache,    out = attention . V,    logits = 10 out . E^T

A fact is a token's (key, value); a question is its key, usually reworded; the answer is the value, out of the values E of
all facts. The whole document in the cache is in-context learning (ICL); a cartridge is a cache with fewer, trained rows.
Source: L14 4.5; Eyuboglu et al., "Cartridges" (2025), section 3.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from threadpoolctl import ThreadpoolController

from labkit import checks

DIM = 64  # numbers in a key and in a value
BETA = 20.0  # sharpness of attention
READOUT = 10.0  # sharpness of the read-out
NOISE = 0.0375  # of a rewording; cosine with its key 1 / sqrt(1 + 64 noise^2) = 0.958
TEST_ROUNDS = 4  # rewordings of every fact in a test
TEST_STREAM = 1  # keeps the test's random numbers apart from those of the world (0) and of training (2, 3)

# Small matrix products are slower on two threads than on one, many times so while another program is busy.
one_thread = ThreadpoolController().wrap(limits=1, user_api="blas")


@dataclass(frozen=True, eq=False)
class Facts:
    """A document of n facts, each its own value: the vocabulary is the n values.

    Attributes
    ----------
    keys, values : arrays (n, 64), rows of length 1.
    noise : float
        Standard deviation, in each of the 64 numbers, of a rewording, 0 to 1,000.
    kinds : int
        Kinds of rewordings, 1 to 64. Each changes its own directions of the space by as much as all do together in the
        case of one kind; they stand for the kinds of seed prompts.
    seed : int
        Of the test's rewordings, at least 0.
    """

    keys: np.ndarray
    values: np.ndarray
    noise: float = NOISE
    kinds: int = 1
    seed: int = 0

    def __post_init__(self):
        if self.keys.ndim != 2 or self.keys.shape[1] != DIM or self.keys.shape != self.values.shape or not len(self.keys):
            raise ValueError(f"Facts: keys {self.keys.shape} and values {self.values.shape} must both be (n, {DIM}), n at least 1")
        for name in ("keys", "values"):
            if not np.allclose(np.linalg.norm(getattr(self, name), axis=1), 1, atol=1e-5):
                raise ValueError(f"Facts: every row of {name} must have length 1")
        checks.number("Facts: noise", self.noise, 0, 1_000)
        checks.whole("Facts: kinds", self.kinds, 1, DIM)
        checks.whole("Facts: seed", self.seed, 0)

    @classmethod
    def random(cls, n=512, seed=0, noise=NOISE, kinds=1):
        """n facts whose keys and values are independent random directions in 64 dimensions."""
        checks.whole("Facts: n", n, 1)
        checks.whole("Facts: seed", seed, 0)
        draws = np.random.default_rng([seed, 0]).standard_normal((2, n, DIM))
        keys, values = normalise(draws)
        return cls(keys, values, noise, kinds, seed)

    def __len__(self):
        return len(self.keys)

    def __repr__(self):
        return f"Facts({len(self):,} facts, noise={self.noise:g}, kinds={self.kinds}, seed={self.seed})"

    def __getitem__(self, part):
        """The facts of a slice, as a document of its own: `facts[:512]`."""
        return replace(self, keys=self.keys[part], values=self.values[part])

    @property
    def cache(self):
        """ICL: the KV cache of the whole document."""
        return Cache(self.keys, self.values)

    def reword(self, asked, rng, kinds=None, dtype=np.float64):
        """normalise(key + noise g), g standard normal (of one kind: in its directions only): questions (m, 64).

        Parameters
        ----------
        asked : int array (m,)
            Which fact each question is about.
        rng : numpy Generator
        kinds : int, optional
            Only the first so many kinds of rewordings; all by default.
        dtype : float64 or float32
        """
        noise = rng.standard_normal((len(asked), DIM), dtype)
        if self.kinds > 1:
            seen = self.kinds if kinds is None else kinds
            which = rng.integers(seen, size=len(asked))
            noise = ((noise * self._kind_masks[which]) @ self._directions.T).astype(dtype)
        noise *= self.noise
        noise += self.keys.astype(dtype)[asked]
        noise /= lengths(noise)
        return noise

    @cached_property
    def _directions(self):
        """A random orthonormal basis (64, 64), its columns dealt out to the kinds in turn."""
        return np.linalg.qr(np.random.default_rng([self.seed, 4]).standard_normal((DIM, DIM)))[0]

    @cached_property
    def _kind_masks(self):
        """(kinds, 64): sqrt(64 / directions of the kind) on its directions, 0 on the others."""
        masks = np.zeros((self.kinds, DIM))
        for mask, columns in zip(masks, np.array_split(np.arange(DIM), self.kinds)):
            mask[columns] = np.sqrt(DIM / len(columns))
        return masks

    @cached_property
    def test(self):
        """Reworded questions (4 n, 64), four rounds over all facts, and the number of the right value (4 n,)."""
        asked = np.tile(np.arange(len(self)), TEST_ROUNDS)
        return self.reword(asked, np.random.default_rng([self.seed, TEST_STREAM])), asked


@dataclass(frozen=True, eq=False)
class Cache:
    """A KV cache of p rows: keys and values (p, 64). A cartridge is one whose rows were trained."""

    keys: np.ndarray
    values: np.ndarray

    def __post_init__(self):
        if self.keys.ndim != 2 or self.keys.shape != self.values.shape or self.keys.shape[1] != DIM or not len(self.keys):
            raise ValueError(f"Cache: keys {self.keys.shape} and values {self.values.shape} must both be (p, {DIM}), p at least 1")

    def __len__(self):
        return len(self.keys)

    def __repr__(self):
        return f"Cache({len(self):,} rows)"

    def attention(self, questions):
        """softmax(20 q . K^T): shares (m, p), each row 1 in sum."""
        scores = BETA * (questions @ self.keys.T)
        scores -= scores.max(axis=1, keepdims=True)
        weights = np.exp(scores)
        return weights / weights.sum(axis=1, keepdims=True)

    def read(self, questions):
        """attention . V: what comes back for each question, (m, 64)."""
        return self.attention(questions) @ self.values


@dataclass(frozen=True, eq=False)
class LinearMemory:
    """One matrix W (64, 64) as memory, out = q . W: as many numbers as a cache of 32 rows."""

    matrix: np.ndarray

    def read(self, questions):
        """q . W, (m, 64)."""
        return questions @ self.matrix


@one_thread
def accuracy(cache, facts, paraphrase=True, rounds=TEST_ROUNDS):
    """Share of questions whose largest logit, over the values of all `facts`, is the right one.

    Parameters
    ----------
    cache : Cache, LinearMemory, or another memory
        Anything with ``read(questions)``.
    facts : Facts
        The document asked about.
    paraphrase : bool
        True: reworded questions, `rounds` (1 to 4) for each fact, the same in every call. False: each key as it is.
    """
    checks.whole("accuracy: rounds", rounds, 1, TEST_ROUNDS)
    questions, asked = facts.test if paraphrase else (facts.keys, np.arange(len(facts)))
    questions, asked = questions[:rounds * len(facts)].astype(np.float32), asked[:rounds * len(facts)]
    values, logits, right = facts.values.astype(np.float32), np.empty((128, len(facts)), np.float32), 0
    for start in range(0, len(questions), 128):  # so that the logits stay small
        out = cache.read(questions[start:start + 128]).astype(np.float32)
        best = np.matmul(out, values.T, out=logits[:len(out)]).argmax(axis=1)
        right += np.sum(best == asked[start:start + 128])
    return float(right / len(questions))


def concatenate(a, b):
    """One cache after the other: p = p_a + p_b rows, nothing retrained."""
    return Cache(np.concatenate([a.keys, b.keys]), np.concatenate([a.values, b.values]))


def slot_of(cache, facts):
    """The slot that attends most to each fact's key, int array (n,): facts with the same number share a slot."""
    return cache.attention(facts.keys).argmax(axis=1)


def attention_share(cache, facts, slots):
    """Mean share of attention that questions about `facts` (reworded) give to `slots`, a slice of the cache's rows."""
    return float(cache.attention(facts.test[0])[:, slots].sum(axis=1).mean())


def _sum(keys, values):
    """Sum of outer products: linear attention's update."""
    return keys.T @ values


def _least_squares(keys, values):
    """The matrix that maps keys to values with the least squared error."""
    return np.linalg.lstsq(keys, values, rcond=None)[0]


LINEAR = {"sum": _sum, "least squares": _least_squares}


def linear_memory(facts, how="sum"):
    """A fixed-size linear memory of the document; `how` is a key of `LINEAR`.

    "sum": W = sum of k v^T, what linear attention writes; "least squares": W = argmin |K W - V|^2, a "trained" one.
    """
    return LinearMemory(pick(LINEAR, how, "linear memory")(facts.keys, facts.values))


# -- small caches without training


def truncate(facts, p):
    """The first p facts: everything else is lost."""
    checks.whole("p", p, 1, len(facts))
    return Cache(facts.keys[:p], facts.values[:p])


def merge(facts, p, rounds=10):
    """p clusters of keys by k-means (from the first p keys); a row is the mean key and the mean value of its facts."""
    checks.whole("p", p, 1, len(facts))
    centres = facts.keys[:p]
    for _ in range(rounds):
        # |k - c|^2 without |k|^2, which is the same for all centres
        nearest = ((centres**2).sum(axis=1) - 2 * facts.keys @ centres.T).argmin(axis=1)
        member = np.equal.outer(np.arange(p), nearest).astype(float)
        size = member.sum(axis=1, keepdims=True)
        centres = np.where(size > 0, member @ facts.keys / np.maximum(size, 1), centres)
    filled = size[:, 0] > 0
    return Cache(centres[filled], (member @ facts.values / np.maximum(size, 1))[filled])


def drop(facts, p):
    """The p facts that receive most attention when every fact's key asks the whole document (heavy hitters)."""
    checks.whole("p", p, 1, len(facts))
    received = facts.cache.attention(facts.keys).sum(axis=0)
    kept = np.sort(np.argsort(-received, kind="stable")[:p])
    return Cache(facts.keys[kept], facts.values[kept])


# name -> (makes a cache of p rows, multiply-adds x 2 of making it for n facts)
BASELINES = {
    "truncation": (truncate, lambda n, p: 0),
    "merging": (merge, lambda n, p: 10 * 2 * DIM * n * (3 * p)),
    "dropping": (drop, lambda n, p: 2 * DIM * n * n),
}


# -- checks


def lengths(rows):
    """Length of each row, (..., 1)."""
    return np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None]


def normalise(rows):
    """Rows divided by their length."""
    return rows / lengths(rows)


def pick(table, name, what):
    """The entry of a table of policies, or a ValueError that lists them."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"{what} {name!r} is unknown; choose one of {', '.join(map(repr, table))}")
    return table[name]
