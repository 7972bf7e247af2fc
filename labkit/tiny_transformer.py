"""A small trained transformer in numpy: documents read apart, joined, and a few of their tokens recomputed (L11 3.3, 3.4).

    deviation of a token in a layer = |K cached - K full|^2 + |V cached - V full|^2
    blend: cached KV, K turned to its place; the k tokens of largest deviation take the KV of a full prefill

`sample` draws the task (labkit.tiny_task), `TinyTransformer.load()` gives the weights that
tools/train_tiny_transformer.py has trained. While a bridging fact is read, the model looks up the fact that points to
it, which stands in the document before, and keeps that fact's subject. A document that was read alone lacks just this.

Limits. The first layer's KV depends on nothing but the token, so deviations begin in the second layer, the last one:
HKVD computes the first layer in full, which makes it equal to an oracle and saves no work here (`cacheblend.ttft_ms`
has the cost). Facts are found by content, so turning K to its place, though exact, makes no difference to accuracy.
"""

import zipfile
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from labkit import reference
from labkit.model import check
from labkit.rope import rope_rotate
from labkit.tiny_task import DOCUMENTS, FACT, NONE, QUESTION, START, Batch, layout, sample

__all__ = ["RULES", "Batch", "BlendStudy", "Reading", "TinyTransformer", "blend_study", "kv_deviation", "layout", "sample"]


# Which tokens to recompute: a rule gives each token a score, the k largest of documents 2 and 3 are taken.
# `deviation` is that of the second layer, (n, T).
RULES = {
    "hkvd": lambda batch, deviation: deviation,
    "random": lambda batch, deviation: batch.luck,
    "first-k": lambda batch, deviation: np.broadcast_to(-(np.arange(deviation.shape[1]) % batch.document_tokens),
                                                        deviation.shape),
}


@dataclass(frozen=True, eq=False)
class Reading:
    """What the model made of a batch.

    answers : int array (n, Q), the symbols it named.  logits : float array (n, Q, SYMBOLS).
    accuracy : {1: ..., 2: ..., 3: ...}, share of right answers by hops.
    full, cached : float arrays (layers, 2, n, heads, T, head_dim), keys ([:, 0], in place) and values of the documents
        read as one sequence, and of documents read alone.
    deviation : float array (n, T, layers), |dK|^2 + |dV|^2 of the cached KV against a full prefill.
    recomputed : bool array (n, T), tokens whose KV was not taken from the cache.
    """

    answers: np.ndarray
    logits: np.ndarray
    accuracy: dict
    full: np.ndarray
    cached: np.ndarray
    deviation: np.ndarray
    recomputed: np.ndarray

    def __repr__(self):
        return (f"Reading of {len(self.answers)} sequences, {self.recomputed.mean():.0%} of the tokens recomputed: right answers by hops "
                f"{rounded(self.accuracy)} (in .accuracy; .answers, .kv, .deviation, .recomputed)")

    @property
    def kv(self):
        """Keys and values it answered from, as `full` and `cached`."""
        return np.where(self.recomputed[:, None, :, None], self.full, self.cached)

    @property
    def remaining(self):
        """Deviation of the KV that was answered from, (n, T, layers): 0 where recomputed."""
        return self.deviation * ~self.recomputed[..., None]


@dataclass(frozen=True, eq=False)
class TinyTransformer:
    """RMSNorm, attention with RoPE, SiLU MLP, no biases; weights are {name: float32 array}, inputs on the left.

    embedding (128, 48), kinds (5, 96); in layer i "i.norm", "i.query", "i.key", "i.value", "i.output" (96, 96),
    "i.mlp_norm", "i.up" (96, 192), "i.down" (192, 96); norm (96,), head (96, 48), tied to the embedding.
    """

    weights: dict
    layers: int = 2
    heads: int = 3
    rope_base: float = 10_000.0

    def __repr__(self):
        return f"TinyTransformer of {self.layers} layers, {self.parameters:,} weights (in .weights)"

    @classmethod
    def load(cls, path=None):
        """The trained weights of data/tiny_transformer.npz (or of another file of the same names)."""
        path = reference.data_folder() / "tiny_transformer.npz" if path is None else path
        try:
            with np.load(path) as stored:
                weights = {name: stored[name].astype(np.float32) for name in stored.files}
        except (OSError, ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path!s} cannot be read as a file of weights, an .npz: {error}") from None
        if bad := [name for name, weight in weights.items() if not np.isfinite(weight).all()]:
            raise ValueError(f"{path!s}: the weights {', '.join(bad)} must be finite numbers")
        return cls(weights)

    @property
    def parameters(self):
        """Number of weights."""
        return sum(weight.size for weight in self.weights.values())

    # ---- three ways to read the documents

    def prefill(self, batch):
        """Read the documents as one sequence, then answer: what the other two are compared with."""
        return self._reading(batch, np.ones(batch.bridging.shape, bool))

    def reuse(self, batch):
        """Take each document's KV as computed alone from position 0, its K turned to its place; compute nothing."""
        return self._reading(batch, np.zeros(batch.bridging.shape, bool))

    def blend(self, batch, fraction, rule="hkvd"):
        """Reuse, with round(fraction x tokens of documents 2 and 3) tokens recomputed, chosen by `rule`.

        Parameters
        ----------
        batch : Batch
        fraction : float
            Share of the tokens of documents 2 and 3, 0 to 1.
        rule : str
            A key of `RULES`: "hkvd" (largest measured deviation in the second layer), "random", or "first-k" (the
            first tokens of each document).

        Raises
        ------
        ValueError
            For an unknown rule or a fraction outside 0 to 1.
        """
        check("fraction", fraction, least=0, most=1)
        if rule not in RULES:
            raise ValueError(f"rule={rule!r} is unknown; choose one of {', '.join(RULES)}")
        first = batch.document_tokens
        score = RULES[rule](batch, both_kv(self, batch)[2][..., 1])[:, first:]
        chosen = np.argsort(-score, axis=1, kind="stable")[:, :round(fraction * score.shape[1])]
        recomputed = np.zeros(batch.bridging.shape, bool)
        np.put_along_axis(recomputed, first + chosen, True, axis=1)
        return self._reading(batch, recomputed)

    def _reading(self, batch, recomputed):
        full, cached, deviation = both_kv(self, batch)
        h = first_look(self, batch)
        for layer in range(1, self.layers):
            h = self.look_up(layer, h, np.where(recomputed[:, None, :, None], full[layer], cached[layer]))
        logits = self.logits(h)
        answers = logits.argmax(-1)
        right = answers == batch.answers
        accuracy = {hops: float(right[:, batch.hops == hops].mean()) for hops in (1, 2, 3)}
        return Reading(answers, logits, accuracy, full, cached, deviation, recomputed)

    # ---- the forward pass

    def document_kv(self, tokens):
        """KV of sequences of facts that are read causally from position 0.

        Parameters
        ----------
        tokens : int array (n, T, 2)

        Returns
        -------
        float32 array (layers, 2, n, heads, T, head_dim)
        """
        positions = np.arange(tokens.shape[1])
        h = self._embed(tokens, np.where(tokens[..., 0] == NONE, START, FACT))
        kv = []
        for layer in range(self.layers):
            if layer:
                h = self._block(layer - 1, h, positions, *kv[-1], mask=positions[:, None] >= positions)
            kv.append(self._kv(layer, h, positions))
        return np.array(kv)        # what the last layer makes of a document is not needed: nothing reads it

    def cached_kv(self, tokens):
        """KV of documents that are read alone, each from position 0, joined in order; K turned to its place."""
        n, length, _ = tokens.shape
        kv = self.document_kv(tokens.reshape(n * DOCUMENTS, length // DOCUMENTS, 2))
        layers, _, _, heads, each, dims = kv.shape
        kv = kv.reshape(layers, 2, n, DOCUMENTS, heads, each, dims)
        kv[:, 0] = rope_rotate(kv[:, 0], each * np.arange(DOCUMENTS)[:, None, None], self.rope_base)
        return kv.swapaxes(3, 4).reshape(layers, 2, n, heads, length, dims)

    def ask(self, batch):
        """The questions as they enter the first layer: (n, Q, 96)."""
        pairs = np.stack([batch.questions, np.full_like(batch.questions, NONE)], axis=-1)
        return self._embed(pairs, np.broadcast_to(QUESTION + batch.hops, batch.questions.shape))

    def look_up(self, layer, h, kv):
        """One layer of the questions, h (n, Q, 96): each stands after the documents, and sees their `kv` and itself."""
        asked, length = h.shape[1], kv.shape[3]
        positions = np.full(asked, length)
        mask = np.hstack([np.ones((asked, length), bool), np.eye(asked, dtype=bool)])
        k, v = (np.concatenate([read, own], axis=2) for read, own in zip(kv, self._kv(layer, h, positions)))
        return self._block(layer, h, positions, k, v, mask)

    def logits(self, h):
        """(n, Q, 96) as it leaves the last layer -> logits of the answers, (n, Q, SYMBOLS)."""
        w = self.weights
        return linear(linear(rms_norm(h, w["norm"]), w["head"]), w["embedding"].T)

    def _embed(self, pairs, kinds):
        """(n, T, 2) symbols and (n, T) kinds -> (n, T, 96): subject beside object, plus what kind of token it is."""
        w = self.weights
        table = np.vstack([w["embedding"], np.zeros_like(w["embedding"][:1])])      # the last row is NONE
        return table[pairs].reshape(*kinds.shape, -1) + w["kinds"][kinds]

    def _split(self, x):
        """(n, T, 96) -> (n, heads, T, 32)."""
        return x.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2)

    def _kv(self, layer, h, positions):
        w, x = self.weights, rms_norm(h, self.weights[f"{layer}.norm"])
        keys = rope_rotate(self._split(linear(x, w[f"{layer}.key"])), positions, self.rope_base)
        return keys, self._split(linear(x, w[f"{layer}.value"]))

    def _block(self, layer, h, positions, k, v, mask):
        """One layer: h (n, T, 96) reads keys and values (n, heads, S, 32) where mask (T, S) allows."""
        w = self.weights
        x = linear(rms_norm(h, w[f"{layer}.norm"]), w[f"{layer}.query"])
        q = rope_rotate(self._split(x), positions, self.rope_base) / np.float32(np.sqrt(k.shape[-1]))
        attention = softmax(q @ k.swapaxes(-1, -2) + np.where(mask, 0, -np.inf).astype(h.dtype))
        h = h + linear((attention @ v).swapaxes(1, 2).reshape(h.shape), w[f"{layer}.output"])
        return h + linear(silu(linear(rms_norm(h, w[f"{layer}.mlp_norm"]), w[f"{layer}.up"])), w[f"{layer}.down"])


@lru_cache(maxsize=4)
def both_kv(model, batch):
    """The documents' KV read as one sequence, read alone, and their deviation. Kept, for the next move of a slider.

    To compute the second layer's KV of some tokens, a blend needs their first layer, which needs the first layer's
    KV only, and that is exact in the cache. So the KV of a recomputed token is the one in `full`.
    """
    full, cached = model.document_kv(batch.tokens), model.cached_kv(batch.tokens)
    return full, cached, kv_deviation(full, cached)


@lru_cache(maxsize=4)
def first_look(model, batch):
    """The questions after the first layer, (n, Q, 96): the same in every reading, since its KV is exact in the cache."""
    return model.look_up(0, model.ask(batch), both_kv(model, batch)[0][0])


@dataclass(frozen=True, eq=False)
class BlendStudy:
    """One batch read in four ways: in full, from the cache, blended by the chosen rule, and by "random" beside it."""

    batch: Batch
    full: Reading
    reuse: Reading
    blend: Reading
    random: Reading

    def __repr__(self):
        said = "; ".join(f"{way} {rounded(row)}" for way, row in self.accuracy.iterrows())
        return f"BlendStudy of {len(self.batch.tokens)} sequences, right answers by hops: {said} (in .accuracy)"

    @cached_property
    def accuracy(self):
        """DataFrame: a row a way, columns 1, 2, 3 (hops)."""
        ways = {"full prefill": self.full, "full reuse": self.reuse, "blend": self.blend, "random, same share": self.random}
        return pd.DataFrame({way: reading.accuracy for way, reading in ways.items()}).T.rename_axis(columns="hops")


def blend_study(fraction=0.15, rule="hkvd", bridging=4 / 15, sequences=100, seed=0):
    """Read `sequences` new sequences with the shipped weights; parameters as `TinyTransformer.blend` and `sample`.

    Moving `fraction` or `rule` keeps the sequences and what was read of them; moving `bridging` draws others.
    """
    batch, full, reuse = _read(bridging, sequences, seed)
    return BlendStudy(batch, full, reuse, *(_blended(fraction, name, batch) for name in (rule, "random")))


@lru_cache(maxsize=4, typed=True)
def _read(bridging, sequences, seed):
    batch = sample(sequences, seed, bridging)
    return batch, _shipped().prefill(batch), _shipped().reuse(batch)


@lru_cache(maxsize=4, typed=True)
def _blended(fraction, rule, batch):
    return _shipped().blend(batch, fraction, rule)


@lru_cache(maxsize=1)
def _shipped():
    return TinyTransformer.load()


def kv_deviation(full, cached):
    """|dK|^2 + |dV|^2 over all heads, a token and a layer: (layers, 2, n, heads, T, head_dim) -> (n, T, layers)."""
    difference = full - cached
    return np.einsum("lpnhtd,lpnhtd->ntl", difference, difference)


def rounded(accuracy):
    """{1: 0.5, ...} as text with two digits."""
    return ", ".join(f"{hops}: {share:.2f}" for hops, share in accuracy.items())


def linear(x, weight):
    """x @ weight as one product of two matrices; numpy would make it one a sequence, which takes longer."""
    return (x.reshape(-1, len(weight)) @ weight).reshape(*x.shape[:-1], -1)


# The next three work in place: fresh memory of this size takes as long as the arithmetic.

def rms_norm(x, gain):
    """x / sqrt(mean x^2 + 1e-6) x gain, over the last axis."""
    x = x / np.sqrt(np.vecdot(x, x)[..., None] / x.shape[-1] + np.float32(1e-6))
    x *= gain
    return x


def softmax(x):
    """exp(x) / sum exp(x), over the last axis."""
    x = x - x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def silu(x):
    """x / (1 + exp(-x))."""
    below = np.exp(-x)
    below += 1
    return np.divide(x, below, out=below)
