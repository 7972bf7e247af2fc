"""What the prefix caches of `labkit.prefix_cache` share: a request, its handle, its answer."""

from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np

from labkit import checks

TOKEN = 8  # bytes of a token: the caches hold tokens as int64


class Hit(NamedTuple):
    """What one request found: ``hit + miss`` = tokens of the prompt.

    Attributes
    ----------
    hit, miss : int
        Tokens reused, tokens computed.
    evicted : int
        Tokens whose KV was lost for this request, at its start and while it generated
        (blocks: block size times the hashes that died).
    refused : bool
        There was no room: nothing was computed for it; hit is 0 and miss the whole prompt.
    """

    hit: int
    miss: int
    evicted: int
    refused: bool


class Handle:
    """A request between `start` and `finish`; `hit`, `miss`, `evicted`, `refused` as in `Hit`."""

    __slots__ = ("cache", "hit", "miss", "evicted", "refused", "finished", "held")

    def __init__(self, cache, hit, miss, evicted=0, refused=False, held=None):
        self.cache = cache
        self.hit, self.miss, self.evicted, self.refused = hit, miss, evicted, refused
        self.finished = False
        self.held = held  # what the cache must know again at finish


class PrefixCache:
    """What the caches share: checks, totals, and a request as start + finish.

    A subclass gives ``_start(prompt) -> Handle`` and ``_finish(handle, generated) -> tokens
    evicted``. Both get tokens as bytes, 8 a token: slices and comparisons of bytes are fast,
    and a slice is a copy, so nothing keeps a whole prompt alive. `generated` are the output
    tokens that have KV: all but the last.
    """

    def __init__(self):
        self.prompt_tokens = 0
        self.hit_tokens = 0

    def request(self, prompt, output=()):
        """Send `prompt`, generate `output`, finish: one request with none beside it.

        Parameters
        ----------
        prompt, output : sequence of int, or 1-D integer array
            Token ids within int64. `output` are the tokens that the model will generate.

        Returns
        -------
        Hit

        Raises
        ------
        ValueError
            If the prompt is empty or something is not a token; the cache is then unchanged.
        """
        output = as_bytes(output, "output")  # first, so that a bad one changes nothing
        return self._end(self.start(prompt), output)

    def start(self, prompt):
        """Look `prompt` up, make room and compute it; returns a `Handle` for `finish`."""
        data = as_bytes(prompt, "prompt")
        if not data:
            raise ValueError("prompt: must have at least one token; got none")
        handle = self._start(data)
        self.prompt_tokens += len(data) // TOKEN
        self.hit_tokens += handle.hit
        return handle

    def finish(self, handle, output=()):
        """Generate `output` and let go of what the request held; returns its `Hit`.

        Raises
        ------
        ValueError
            If the handle is not one of this cache's, or was finished before.
        """
        if not isinstance(handle, Handle) or handle.cache is not self:
            raise ValueError(f"handle: must come from this cache's start(); got {handle!r}")
        if handle.finished:
            raise ValueError("handle: this request was finished before; a request finishes once")
        return self._end(handle, as_bytes(output, "output"))

    def _end(self, handle, output):
        handle.finished = True
        if not handle.refused:
            # The last generated token ends the request: it never went through the model.
            handle.evicted += self._finish(handle, output[:-TOKEN])
            handle.held = None
        return Hit(handle.hit, handle.miss, handle.evicted, handle.refused)

    @property
    def hit_rate(self):
        """Share of all prompt tokens so far that were hits (0 before the first request)."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def as_bytes(tokens, name):
    """Tokens as bytes, 8 a token (int64).

    Raises
    ------
    ValueError
        If it is no sequence, or something in it is not a whole number within int64 (floats,
        strings and booleans are refused, whole or not).
    """
    if isinstance(tokens, tuple) and not tokens:  # a request without an answer
        return b""
    if isinstance(tokens, np.ndarray) and tokens.dtype.kind in "iu":
        if tokens.ndim != 1:
            raise ValueError(f"{name}: must be one sequence of tokens; got {tokens.ndim} dimensions")
        if tokens.dtype == np.uint64 and len(tokens) and tokens.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name}: tokens must fit int64; got {tokens.max()}")
        return tokens.astype(np.int64, copy=False).tobytes()
    try:
        if isinstance(tokens, (Set, Mapping)):
            raise TypeError("no order")
        tokens = list(tokens)
    except TypeError:
        raise ValueError(f"{name}: must be a sequence of whole numbers; got {tokens!r}") from None
    if not all(issubclass(t, (int, np.integer)) and t is not bool for t in set(map(type, tokens))):
        wrong = next(t for t in tokens if not isinstance(t, (int, np.integer)) or isinstance(t, bool))
        raise ValueError(f"{name}: tokens must be whole numbers; got {wrong!r}")
    try:
        return np.array(tokens, dtype=np.int64).tobytes()
    except OverflowError:
        raise ValueError(f"{name}: tokens must fit int64; got {max(tokens, key=abs)}") from None


def common_prefix(a, b):
    """Longest common prefix of two token strings, in bytes (whole tokens)."""
    length = min(len(a), len(b)) // TOKEN
    if a[: length * TOKEN] == b[: length * TOKEN]:
        return length * TOKEN
    differ = np.frombuffer(a, np.int64, length) != np.frombuffer(b, np.int64, length)
    return int(differ.argmax()) * TOKEN


def check_capacity(value, name):
    """`value`, if it is a whole number from 0 on, or None, which stands for infinite."""
    return None if value is None else checks.whole(name, value, 0)
