"""Retrieved documents and a prefix cache: how much is found when the mix and the order change (L11 3.2, 3.3).

    hit share of a prefix cache = leading documents that an earlier prompt began with, in the same order / k
    hit share of CacheBlend     = documents read before, in whatever place / k
"""

from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.model import check
from labkit.prefix_cache import RadixCache

# How the retrieved documents are put into the prompt. `ranked` (requests, k) are document ids, best first;
# `popularity` (library,) is each document's place in the order of popularity, 0 the most popular.
ORDERS = {
    "as ranked": lambda ranked, popularity: ranked,
    "sorted by id": lambda ranked, popularity: np.sort(ranked, axis=1),
    "most popular first": lambda ranked, popularity: np.take_along_axis(ranked, popularity[ranked].argsort(axis=1), axis=1),
}


def rag_study(library=100, k=6, skew=1.0, requests=300, seed=0):
    """Send `requests` prompts of k retrieved documents through an infinite prefix cache, with every order.

    Parameters
    ----------
    library : int
        Documents there are, at least k.
    k : int
        Documents a prompt; 6 in the paper.
    skew : float
        Popularity falls as 1 / rank^skew (Zipf), at least 0; 0 makes all alike.
    requests, seed : int
        The retrieved documents are the same for every order.

    Returns
    -------
    DataFrame
        A row an order and one "CacheBlend"; columns hit_share (of the retrieved documents), stored (documents whose KV
        is kept in the end; a prefix cache keeps one for each place in which it was read).
    """
    places, stored = _found(library, k, skew, requests, seed)
    return pd.DataFrame({"hit_share": places.mean(), "stored": stored}).rename_axis("order")


def rag_sizes(libraries=(10, 20, 50, 100, 200, 500, 1000), k=6, skew=1.0, requests=300, seed=0):
    """Hit share against the size of the library: a DataFrame, index library, a column an order and "CacheBlend"."""
    if isinstance(libraries, (str, bytes)) or not np.iterable(libraries) or not len(libraries):
        raise ValueError(f"rag_sizes: libraries={libraries!r} must be a list of whole numbers of documents, at least k")
    return pd.DataFrame({library: _found(library, k, skew, requests, seed)[0].mean() for library in libraries}
                        ).T.rename_axis(index="library", columns=None)


def rag_places(library=100, k=6, skew=1.0, requests=300, seed=0):
    """Share of the requests whose document at place 1, 2, ..., k is found: a DataFrame, index place, columns as `rag_sizes`.

    Its mean over the places is `rag_study`'s hit share.
    """
    return _found(library, k, skew, requests, seed)[0].copy()


@lru_cache(maxsize=64)
def _found(library, k, skew, requests, seed):
    """(DataFrame of `rag_places`, {order: documents kept}): each order through a cache of its own, and CacheBlend."""
    ranked, popularity = _retrieved(library, k, skew, requests, seed)
    places, shares, stored = np.arange(k), {}, {}
    for name, order in ORDERS.items():
        hits, stored[name] = _hits(order(ranked, popularity), library)
        shares[name] = (hits[:, None] > places).mean(axis=0)
    known, first = np.unique(ranked, return_index=True)         # CacheBlend misses a document once, wherever it stands
    shares["CacheBlend"] = 1 - np.bincount(first % k, minlength=k) / requests
    return pd.DataFrame(shares, index=pd.RangeIndex(1, k + 1, name="place")), stored | {"CacheBlend": len(known)}


def _hits(prompts, library):
    """Leading documents of each prompt that an infinite prefix cache had, and the documents it keeps in the end.

    One token stands for a document: all have one length, and only whole documents can match. The question at the end is
    new each time, and is not counted.
    """
    cache = RadixCache()
    questions = library + np.arange(len(prompts))
    no_answer = questions[:0]                                   # an array, which the cache checks faster than ()
    hits = [cache.request(prompt, no_answer).hit for prompt in np.column_stack([prompts, questions])]
    return np.array(hits), cache.cached_tokens - len(prompts)


@lru_cache(maxsize=32)
def _retrieved(library, k, skew, requests, seed):
    """Documents of each request, best first, drawn by popularity without repetition; and each document's popularity."""
    checks.whole("rag_study: k", k, 1)
    checks.whole("rag_study: requests", requests, 1)
    checks.whole("rag_study: library", library, k)
    check("skew", skew, least=0)
    popularity, luck = _draws(library, requests, seed)
    # The k largest of log p + Gumbel noise are k draws by p without repetition, in the order drawn.
    score = luck - skew * np.log(1 + popularity)
    ranked = np.argpartition(-score, k - 1, axis=1)[:, :k]
    return np.take_along_axis(ranked, np.take_along_axis(-score, ranked, axis=1).argsort(axis=1), axis=1), popularity


@lru_cache(maxsize=16)
def _draws(library, requests, seed):
    checks.whole("rag_study: seed", seed, 0)
    rng = np.random.default_rng(seed)
    return rng.permutation(library), rng.gumbel(size=(requests, library))
