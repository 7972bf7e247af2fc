"""Make data/mooncake_sample.jsonl: a small trace of invented requests in Mooncake's format.

    python tools/make_mooncake_sample.py

Fixed seed; a second run writes the same bytes. No real user's data is in it. Half an hour of a
chat service, invented as follows:

- conversations: 70, each with one of three system prompts of 1.0k, 1.5k and 2.5k tokens, whole
  blocks; one to twelve turns (geometric, mean 4). A turn adds the user's 30-600 tokens (log-
  uniform) and the answer's 40-500, and comes 20-300 s after the one before. A prompt is the
  conversation so far; what goes into the next prompt is this prompt plus the answer.
- one-off prompts: 90 documents of 0.2k-6k tokens (log-uniform), sent once.

Ids are given out in order of first use, as in the public traces. A full block's id stands for
all tokens up to its end; a partial last block has an id of its own, unless it ends a prompt that
is sent again unchanged: every tenth turn is (a retry, 5-40 s later).
"""

import json
from pathlib import Path

import numpy as np

BLOCK = 512
SYSTEMS = (1_024, 1_536, 2_560)
MINUTES = 30
TARGET = Path(__file__).resolve().parents[1] / "data" / "mooncake_sample.jsonl"


def log_uniform(rng, low, high):
    return int(round(np.exp(rng.uniform(np.log(low), np.log(high)))))


def conversation(rng, name):
    """Requests of one conversation: (milliseconds, input, output, names of its blocks)."""
    system = int(rng.choice(len(SYSTEMS), p=[0.5, 0.3, 0.2]))
    shared, length = SYSTEMS[system] // BLOCK, SYSTEMS[system]
    clock, requests = rng.uniform(0, MINUTES * 60_000), []
    for turn in range(min(12, rng.geometric(1 / 4))):
        length += log_uniform(rng, 30, 600)
        output = log_uniform(rng, 40, 500)
        full = length // BLOCK
        blocks = [("system", system, b) if b < shared else (name, b) for b in range(full)]
        if length % BLOCK:
            blocks.append((name, full, "partial", turn))
        requests.append((int(clock), length, output, blocks))
        if rng.random() < 0.1:
            requests.append((int(clock + rng.uniform(5_000, 40_000)), length, output, blocks))
        length += output
        clock += rng.uniform(20_000, 300_000)
    return requests


def one_off(rng, name):
    length = log_uniform(rng, 200, 6_000)
    blocks = [(name, b) for b in range(-(-length // BLOCK))]
    return [(int(rng.uniform(0, MINUTES * 60_000)), length, log_uniform(rng, 10, 400), blocks)]


def sample(seed=0):
    """The lines of the trace, as dicts, in order of time; ids in order of first use."""
    rng = np.random.default_rng(seed)
    requests = [r for k in range(70) for r in conversation(rng, f"talk {k}")]
    requests += [r for k in range(90) for r in one_off(rng, f"document {k}")]
    ids = {}
    return [
        {
            "timestamp": clock,
            "input_length": length,
            "output_length": output,
            "hash_ids": [ids.setdefault(block, len(ids)) for block in blocks],
        }
        for clock, length, output, blocks in sorted(requests, key=lambda request: request[0])
        if clock < MINUTES * 60_000
    ]


def main():
    lines = [json.dumps(request) for request in sample()]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(lines)} requests, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
