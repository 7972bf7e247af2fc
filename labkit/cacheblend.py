"""CacheBlend: which few tokens to recompute, so that documents read apart answer as if read together (L11 3.3-3.5).

    rest    = sum of d over the tokens not recomputed / sum of d over all
    quality = 0.80 (1 - rest) + 0.62 rest

The model of the lecture notes: six documents of 512 tokens; the first is a prefix and depends on nothing, a token of
the others depends on earlier documents with strength d = u^tail, u uniform. All of this is assumed, none of it measured;
`labkit.tiny_transformer` shows the same on a network that was trained. Times are in `cacheblend_time`, retrieved
documents and prefix caches in `cacheblend_rag`; their names can be had from here too.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.cacheblend_rag import ORDERS, rag_places, rag_sizes, rag_study
from labkit.cacheblend_time import (DEVICES, LECTURE, LINKS, METHODS, PAPER, LayerTimes, Pipeline, controller,
                                    disaggregation, hidden_fraction, layer_times, pipeline, sharing, tiers, ttft_ms,
                                    ttft_table)
from labkit.model import check
from labkit.rope import rope_rotate

__all__ = [
    "DEVICES", "LECTURE", "LINKS", "METHODS", "ORDERS", "PAPER", "PICKS", "RULES", "LayerStudy", "LayerTimes", "Pipeline",
    "blend_quality", "controller", "disaggregation", "gap_won_back", "hidden_fraction", "layer_study", "layer_times",
    "picked_by_rank", "pipeline", "quality_curves", "rag_places", "rag_sizes", "rag_study", "rope_rotate", "sharing", "tiers",
    "top_share", "ttft_ms", "ttft_table",
]

DOCUMENTS, DOCUMENT_TOKENS = 6, 512                     # the paper's requests have 6 chunks of 512 tokens (7.1)
TOKENS = DOCUMENTS * DOCUMENT_TOKENS                    # fractions are of these 3,072
DEPENDENT = TOKENS - DOCUMENT_TOKENS                    # 2,560 tokens that can deviate at all
FULL_QUALITY, REUSE_QUALITY = 0.80, 0.62                # assumed by the lecture notes

# A rule estimates each token's dependency; the largest estimates are recomputed. d, z (normal), luck: (instances, 2560).
RULES = {
    "hkvd": lambda d, z, luck, noise: d * np.exp(noise * z),
    "oracle": lambda d, z, luck, noise: d,
    "random": lambda d, z, luck, noise: luck,
}


def blend_quality(fraction, rule="hkvd", tail=10, noise=0.7, instances=100, seed=0):
    """Mean quality when k = min(int(fraction x 3,072), 2,560) tokens of documents 2 to 6 are recomputed.

    Parameters
    ----------
    fraction : float
        Share of all 3,072 tokens to recompute, 0 to 1.
    rule : str
        A key of `RULES`: "hkvd" takes the largest d exp(noise N(0, 1)), "oracle" the largest d, "random" any.
    tail : float
        d = u^tail, at least 0. The larger, the fewer tokens carry most of the dependency: 10 in L11, 3 in exercise 4.
    noise : float
        Of the estimate, in units of log d, at least 0: 0.7 in L11, 2.0 in exercise 8b.
    instances : int
        Random instances to average over.
    seed : int
        The same draws serve every fraction, rule, tail and noise.

    Raises
    ------
    ValueError
        For an unknown rule or a value out of range.
    """
    check("fraction", fraction, least=0, most=1)
    return float(_quality(rule, tail, noise, instances, seed)[min(int(fraction * TOKENS), DEPENDENT)])


def quality_curves(tail=10, noise=0.7, instances=100, seed=0, steps=100):
    """Quality against the fraction recomputed, for every rule: a DataFrame, index fraction (0 to 1), a column a rule."""
    checks.whole("quality_curves: steps", steps, 1)
    fractions = np.arange(steps + 1) / steps
    k = np.minimum((fractions * TOKENS).astype(int), DEPENDENT)
    return pd.DataFrame({rule: _quality(rule, tail, noise, instances, seed)[k] for rule in RULES},
                        index=pd.Index(fractions, name="fraction"))


def gap_won_back(quality):
    """(quality - 0.62) / 0.18: share of what full reuse loses that is won back; 0 for full reuse, 1 for full recompute."""
    return (quality - REUSE_QUALITY) / (FULL_QUALITY - REUSE_QUALITY)


def top_share(share=0.1, tail=10):
    """1 - (1 - share)^(tail + 1): what the `share` most dependent tokens hold of the sum of d = u^tail.

    `share` counts the 2,560 tokens that can depend on others; a share s of all 3,072 is 1.2 s of them.
    """
    return 1 - (1 - check("share", share, least=0, most=1)) ** (check("tail", tail, least=0) + 1)


def picked_by_rank(fraction, rule="hkvd", tail=10, noise=0.7, instances=100, seed=0, bins=64):
    """Chance of a token to be recomputed, by its rank among the 2,560: parameters and draws as `blend_quality`.

    Returns
    -------
    Series
        Index: middle of each bin of ranks as a share, near 0 the most dependent tokens. Values 0 to 1.
    """
    k = min(int(check("fraction", fraction, least=0, most=1) * TOKENS), DEPENDENT)
    checks.whole("picked_by_rank: bins", bins, 1)
    order = _order(rule, tail, noise, instances, seed)
    rank = _draws(instances, seed)[3]
    edges = np.arange(bins + 1) * DEPENDENT // bins
    picked = np.histogram(np.take_along_axis(rank, order[:, :k], axis=1), edges)[0]
    return pd.Series(picked / np.diff(edges) / instances, index=pd.Index((edges[1:] + edges[:-1]) / 2 / DEPENDENT, name="rank"))


@lru_cache(maxsize=4)
def _draws(instances, seed):
    """u, z (normal), luck and the rank of u (0 the largest): (instances, 2560) each."""
    checks.whole("blend_quality: instances", instances, 1)
    checks.whole("blend_quality: seed", seed, 0)
    rng = np.random.default_rng(seed)
    shape = instances, DEPENDENT
    u, z, luck = rng.random(shape), rng.standard_normal(shape), rng.random(shape)
    return u, z, luck, (-u).argsort(axis=1).argsort(axis=1)


@lru_cache(maxsize=8)
def _order(rule, tail, noise, instances, seed):
    """Tokens in the order in which a rule would recompute them, (instances, 2560)."""
    if rule not in RULES:
        raise ValueError(f"rule={rule!r} is unknown; choose one of {', '.join(RULES)}")
    check("tail", tail, least=0)
    check("noise", noise, least=0)
    u, z, luck, _ = _draws(instances, seed)
    return np.argsort(-RULES[rule](u ** tail, z, luck, noise), axis=1)


@lru_cache(maxsize=16)
def _quality(rule, tail, noise, instances, seed):
    """Mean quality after 0, 1, ..., 2,560 recomputed tokens."""
    order = _order(rule, tail, noise, instances, seed)
    gained = np.take_along_axis(_draws(instances, seed)[0] ** tail, order, axis=1).cumsum(axis=1)
    rest = 1 - (gained / gained[:, -1:]).mean(axis=0)
    rest = np.concatenate([[1.0], np.maximum(rest, 0)])
    return FULL_QUALITY * (1 - rest) + REUSE_QUALITY * rest


# ---- which layer picks

def _once(u, keep):
    """The largest in the first layer are recomputed in all the others."""
    return _top(u[0], keep[-1])[None].repeat(len(u), axis=0)


def _gradual(u, keep):
    """Each layer keeps, of the tokens that the one before it recomputed, those that deviate most in that one."""
    kept = [_top(u[0], keep[1])]
    for layer in range(1, len(u) - 1):
        kept.append(_top(np.where(kept[-1], u[layer], -1), keep[layer + 1]))
    return np.array([kept[0], *kept])


def _oracle(u, keep):
    """The largest of each layer, known beforehand."""
    return np.array([_top(layer, k) for layer, k in zip(u, keep)])


# A pick takes the ranks u (layers, instances, tokens) and the number of tokens to `keep` in each layer; the mask that
# it returns says which are recomputed. Beside it: its share by layer, given the fraction and the gradual schedule.
PICKS = {
    "once": (_once, lambda fraction, schedule: np.full_like(schedule, fraction)),
    "gradual": (_gradual, lambda fraction, schedule: schedule),
    "once, at the cost of gradual": (_once, lambda fraction, schedule: np.full_like(schedule, schedule[1:].mean())),
    "oracle": (_oracle, lambda fraction, schedule: np.full_like(schedule, fraction)),
}


@dataclass(frozen=True)
class LayerStudy:
    """Picking once against layer by layer against knowing.

    summary : DataFrame, a row a pick: quality, won_back (share of the gap), rest (mean over the layers), last_rest (in
        the last layer), computed (mean share of the 3,072 tokens a layer).  rest, computed : DataFrames, index layer, a
    column a pick.
    """

    summary: pd.DataFrame
    rest: pd.DataFrame
    computed: pd.DataFrame

    def __repr__(self):
        said = "; ".join(f"{name} {share:.1%}" for name, share in self.summary.won_back.items())
        return f"LayerStudy of {len(self.rest)} layers, gap won back: {said} (in .summary; by layer in .rest, .computed)"


def layer_study(fraction=0.15, tail=10, correlation=0.94, extra=0.5, over=8, layers=10, instances=10, seed=0):
    """Deviations that differ by layer, d_l = u_l^tail, where neighbouring layers are correlated.

    u_l is the rank of g_l, g_{l+1} = correlation g_l + sqrt(1 - correlation^2) N(0, 1): layers m apart correlate by
    correlation^m. 0.94 was measured between neighbours on a small real model; it gives 0.57 from the first to the tenth
    layer, where about 0.6 was measured. More than ten layers extrapolate, and probably too darkly. Deviations are
    measured exactly here: layers differ, in place of noise.

    Parameters
    ----------
    fraction : float
        Share of the 3,072 tokens that is recomputed, 0 to 1: by "once" and "oracle" throughout, by "gradual" in the end.
    correlation : float
        Of neighbouring layers, 0 to 1; 1 makes all layers alike.
    extra, over : float, int
        "gradual" keeps (1 + extra) fraction in layer 2, less by equal steps, fraction after `over` more layers.
    layers, instances, seed : int

    Returns
    -------
    LayerStudy
    """
    check("fraction", fraction, least=0, most=1)
    check("extra", extra, least=0)
    checks.whole("layer_study: over", over, 1)
    u = _layered_ranks(correlation, layers, instances, seed)
    d = u ** check("tail", tail, least=0)
    schedule = fraction * (1 + extra * np.clip(1 - (np.arange(layers) - 1) / over, 0, 1))
    first = np.arange(layers) == 0
    rest, computed = {}, {}
    for name, (pick, share) in PICKS.items():
        keep = np.minimum((share(fraction, schedule) * TOKENS).astype(int), DEPENDENT)
        left = 1 - (pick(u, keep) * d).sum((1, 2)) / d.sum((1, 2))
        measured = first & (pick is not _oracle)        # who must measure computes the first layer in full
        rest[name] = np.where(measured, 0, left)
        computed[name] = np.where(measured, DEPENDENT, keep) / TOKENS
    index = pd.RangeIndex(1, layers + 1, name="layer")
    rest, computed = pd.DataFrame(rest, index), pd.DataFrame(computed, index)
    quality = FULL_QUALITY - (FULL_QUALITY - REUSE_QUALITY) * rest.mean()
    summary = pd.DataFrame({"quality": quality, "won_back": gap_won_back(quality), "rest": rest.mean(),
                            "last_rest": rest.iloc[-1], "computed": computed.mean()})
    return LayerStudy(summary, rest, computed)


def _top(values, k):
    """Mask of the k largest in each row of (instances, tokens)."""
    mask = np.zeros(values.shape, bool)
    if k:
        np.put_along_axis(mask, np.argpartition(-values, k - 1, axis=-1)[:, :k], True, axis=-1)
    return mask


@lru_cache(maxsize=4)
def _layered_ranks(correlation, layers, instances, seed):
    """u_l in (0, 1), (layers, instances, tokens): ranks of a chain of correlated normals."""
    check("correlation", correlation, least=0, most=1)
    checks.whole("layer_study: layers", layers, 2)
    checks.whole("layer_study: instances", instances, 1)
    checks.whole("layer_study: seed", seed, 0)
    g = np.random.default_rng(seed).standard_normal((layers, instances, DEPENDENT))
    for layer in range(1, layers):
        g[layer] = correlation * g[layer - 1] + np.sqrt(1 - correlation ** 2) * g[layer]
    return (g.argsort(-1).argsort(-1) + 0.5) / DEPENDENT
