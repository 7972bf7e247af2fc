"""Exact prefix caches: one session, a radix tree, hashed blocks (L14 section 2.3, L11 section 2).

A request sends a prompt of n tokens. The KV of its longest cached prefix is reused, the rest is
computed, and at least one token always is, because its logits start the answer:

    n = hit + miss,   0 <= hit <= n - 1

Three caches answer ``request(prompt, output) -> Hit``:

- `SessionCache` keeps the previous prompt of one session;
- `RadixCache` keeps every prefix, token by token, in a radix tree, as SGLang does (Zheng et al.,
  "SGLang: Efficient Execution of Structured Language Model Programs", 2024);
- `BlockCache` keeps full blocks under chained hashes, as vLLM does (Kwon et al., "Efficient
  Memory Management for Large Language Model Serving with PagedAttention", 2023).

Requests that overlap use ``handle = start(prompt)`` and later ``finish(handle, output)``.
`replay` (from `labkit.mooncake`) gives the hit rate of a recorded trace against capacity.
"""

import pandas as pd

from labkit import checks
from labkit.block_cache import BlockCache
from labkit.cache_base import (
    TOKEN, Handle, Hit, PrefixCache, check_capacity, common_prefix,
)
from labkit.mooncake import read_trace, replay, trace_prompts
from labkit.radix_cache import RadixCache

__all__ = [
    "PREFIX_CACHES", "BlockCache", "Handle", "Hit", "PrefixCache", "RadixCache", "SessionCache",
    "read_trace", "replay", "replay_prompts", "trace_prompts",
]


class SessionCache(PrefixCache):
    """The cache of one session: hit = min(common prefix with the previous sequence, n - 1).

    The previous sequence is the last prompt with the generated tokens that have KV. There is
    no limit and so no eviction. On prompts in which whatever changes is new, as MemGPT's
    (L14 section 2.3), it hits what an infinite `RadixCache` hits.
    """

    def __init__(self):
        super().__init__()
        self._previous = b""

    @property
    def cached_tokens(self):
        """Tokens whose KV is kept."""
        return len(self._previous) // TOKEN

    def _start(self, prompt):
        hit = common_prefix(self._previous, prompt[:-TOKEN]) // TOKEN
        self._previous = prompt
        return Handle(self, hit, len(prompt) // TOKEN - hit, held=prompt)

    def _finish(self, handle, generated):
        self._previous = handle.held + generated
        return 0


PREFIX_CACHES = {
    "blocks": lambda tokens, block_size: BlockCache(
        None if tokens is None else tokens // block_size, block_size
    ),
    "radix": lambda tokens, block_size: RadixCache(tokens),
}


def replay_prompts(prompts, cache="blocks", tokens=None, block_size=16):
    """Send prompts one after the other through a fresh cache; a row a request.

    Parameters
    ----------
    prompts : iterable of token sequences
        For example ``trace_prompts(trace)``.
    cache : str
        A key of `PREFIX_CACHES`: "blocks" or "radix".
    tokens : int, optional
        Capacity in tokens (blocks: floor(tokens / block_size) blocks); None = infinite.
    block_size : int
        Tokens a block; the radix tree has none.

    Returns
    -------
    DataFrame
        Columns hit, miss, evicted (tokens) and refused.
    """
    if cache not in tuple(PREFIX_CACHES):
        raise ValueError(f"cache: must be one of {', '.join(PREFIX_CACHES)}; got {cache!r}")
    checks.whole("block_size", block_size, 1)
    made = PREFIX_CACHES[cache](check_capacity(tokens, "tokens"), block_size)
    return pd.DataFrame([made.request(prompt) for prompt in prompts], columns=Hit._fields)
