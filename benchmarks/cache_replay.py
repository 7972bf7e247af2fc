"""Prompt tokens a second through each prefix cache, and its memory for each cached token.

Run ``python benchmarks/cache_replay.py``. One core; fixed seed. The prompts are 1,000 to 3,000
tokens long and share prefixes: four system prompts, and conversations that grow turn by turn.
Aim: three million prompt tokens a second or more through each cache.
"""

import time
import tracemalloc

import numpy as np

from labkit.prefix_cache import BlockCache, RadixCache, SessionCache

AIM = 3e6  # prompt tokens a second
CACHES = {
    "session": SessionCache,
    "radix, infinite": RadixCache,
    "radix, 100,000 tokens": lambda: RadixCache(100_000),
    "radix, 20,000 tokens": lambda: RadixCache(20_000),
    "blocks of 16, infinite": BlockCache,
    "blocks of 16, 100,000 tokens": lambda: BlockCache(100_000 // 16),
    "blocks of 16, 20,000 tokens": lambda: BlockCache(20_000 // 16),
    "blocks of 128, 100,000 tokens": lambda: BlockCache(100_000 // 128, 128),
}


def shared_prompts(requests=2_000, seed=0):
    """(prompt, output) pairs: 60 conversations at a time, taking turns at random."""
    rng = np.random.default_rng(seed)
    systems = [rng.integers(0, 128_000, size) for size in (300, 500, 700, 900)]
    talks = [None] * 60
    pairs = []
    for _ in range(requests):
        k = rng.integers(len(talks))
        if talks[k] is None or len(talks[k]) > 2_400:
            opening = rng.integers(0, 128_000, 1_000 - 300 + rng.integers(0, 400))
            talks[k] = np.concatenate([systems[rng.integers(len(systems))], opening])
        user, output = (rng.integers(0, 128_000, rng.integers(20, 300)) for _ in range(2))
        prompt = np.concatenate([talks[k], user])
        talks[k] = np.concatenate([prompt, output])
        pairs.append((prompt, output))
    return pairs


def serve(cache, pairs, outputs):
    for prompt, output in pairs:
        cache.request(prompt, output if outputs else ())
    return cache


def tokens_per_second(make, pairs, outputs):
    """Prompt tokens a CPU second through a new cache: the best of three runs."""
    seconds = []
    for _ in range(3):
        cache, begin = make(), time.process_time()
        serve(cache, pairs, outputs)
        seconds.append(time.process_time() - begin)
    return sum(len(prompt) for prompt, _ in pairs) / min(seconds)


def measure(name, make, pairs, outputs):
    """The speed, and in one more run under tracemalloc the memory."""
    tracemalloc.start()
    cache = serve(make(), pairs, outputs)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    rate = tokens_per_second(make, pairs, outputs)
    print(
        f"{name:34}{'yes' if outputs else 'no':>9}{rate / 1e6:12.1f}{cache.hit_rate:10.3f}"
        f"{cache.cached_tokens:12,}{held / cache.cached_tokens:15.1f}{'' if rate >= AIM else '   below the aim'}"
    )


def main():
    pairs = shared_prompts()
    lengths = [len(prompt) for prompt, _ in pairs]
    print(f"{len(pairs)} prompts of {min(lengths):,} to {max(lengths):,} tokens, {sum(lengths):,} in all\n")
    print(f"{'cache':34}{'outputs':>9}{'M tokens/s':>12}{'hit rate':>10}{'cached':>12}{'bytes a token':>15}")
    for name, make in CACHES.items():
        for outputs in (False, True):
            measure(name, make, pairs, outputs)
    print("\nprompts given as lists of int instead of arrays")
    listed = [(prompt.tolist(), output.tolist()) for prompt, output in pairs]
    for name in ("radix, 100,000 tokens", "blocks of 16, 100,000 tokens"):
        measure(name, CACHES[name], listed, True)


if __name__ == "__main__":
    main()
