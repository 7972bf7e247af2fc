"""Recorded traces in Mooncake's public format, and the hit rate of an LRU block cache on them.

A trace is JSON lines, one a request (Qin et al., "Mooncake: A KVCache-centric Disaggregated
Architecture for LLM Serving", 2024):

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}

timestamp in milliseconds, never falling; lengths in tokens; hash_ids name the blocks of 512
tokens of the input, ceil(input_length / 512) of them. Each hash covers the whole prefix, so an
equal id means equal tokens up to the block's end. The last block is usually partial and has
its own id: a longer prompt that goes on from there shares the full blocks only.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from labkit import checks

TRACE_BLOCK = 512  # tokens a block, fixed by the format
LENGTHS = ("timestamp", "input_length", "output_length")
LARGEST_ID = np.iinfo(np.int64).max // TRACE_BLOCK - 1  # so that its tokens still fit int64


class TraceRequest(NamedTuple):
    """One line of a trace: milliseconds, tokens, tokens, ids of the 512-token blocks."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list


def read_trace(trace):
    """Read a trace one line at a time, however long it is.

    Parameters
    ----------
    trace : path, or iterable of lines or dicts
        A file of JSON lines (blank lines are skipped), its lines, or its entries.

    Yields
    ------
    TraceRequest

    Raises
    ------
    ValueError
        At the first bad line, with its number: not JSON, no object, a field missing, a length or
        timestamp that is negative or no number, a time before the one above, ids that are not
        whole numbers from 0 on or not ceil(input_length / 512) many.
    """
    if isinstance(trace, (str, os.PathLike)):
        with open(trace, "rb") as lines:
            yield from read_trace(lines)
        return
    if not isinstance(trace, Iterable):
        raise ValueError(f"trace must be a path, or lines or entries of a trace; got {trace!r}")
    now = 0
    for number, line in enumerate(trace, 1):
        if isinstance(line, (str, bytes)) and not line.strip():
            continue
        try:
            request = _check(line)
            if request.timestamp < now:
                raise ValueError(f"timestamp {request.timestamp} is before the {now} above it")
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        now = request.timestamp
        yield request


def _check(line):
    """One line or entry as a TraceRequest; ValueError says what is wrong with it."""
    if isinstance(line, TraceRequest):
        line = line._asdict()
    if isinstance(line, (str, bytes)):
        try:
            line = json.loads(line)
        except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
            raise ValueError(f"not JSON ({error})") from None
        except RecursionError:
            raise ValueError("not JSON of this format (nested too deeply)") from None
    if not isinstance(line, dict):
        raise ValueError(f"must be an object with {', '.join(TraceRequest._fields)}; got {_short(line)}")
    missing = [field for field in TraceRequest._fields if field not in line]
    if missing:
        raise ValueError(f"{' and '.join(missing)} missing")
    request = TraceRequest(*(line[field] for field in TraceRequest._fields))
    if not _is_time(request.timestamp):
        raise ValueError(f"timestamp must be milliseconds from 0 on; got {_short(request.timestamp)}")
    if not _is_whole(request.input_length) or request.input_length < 1:
        raise ValueError(f"input_length must be a whole number from 1 on; got {_short(request.input_length)}")
    if not _is_whole(request.output_length):
        raise ValueError(f"output_length must be a whole number from 0 on; got {_short(request.output_length)}")
    ids, blocks = request.hash_ids, -(-request.input_length // TRACE_BLOCK)
    if not isinstance(ids, (list, tuple)) or not all(map(_is_whole, ids)):
        raise ValueError(f"hash_ids must be a list of whole numbers from 0 on; got {_short(ids)}")
    if len(ids) != blocks:
        raise ValueError(
            f"hash_ids must be {blocks} ids for an input_length of {request.input_length}; got {len(ids)}"
        )
    return request


def _is_whole(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0


def _is_time(value):
    return _is_whole(value) or (isinstance(value, float) and 0 <= value < float("inf"))


def _short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _LruStack:
    """Which blocks were used last, as a count: distance = other blocks used since a block's last use.

    A cache of C blocks that evicts the least recently used one holds a block if and only if its
    distance is below C, so one pass answers for every C (Mattson et al., "Evaluation techniques
    for storage hierarchies", 1970). Last uses stand as marks on a line of slots, and a Fenwick
    tree counts marks: O(log slots) a use. A full line is packed, so it stays below a few times
    the number of distinct blocks.
    """

    def __init__(self):
        self.slot = {}  # block id -> slot of its last use, 1..size
        self._line(1024)

    def _line(self, size):
        """A new line of `size` slots with the blocks, in their order, at its start."""
        self.size = size
        self.used = len(self.slot)
        for position, block in enumerate(sorted(self.slot, key=self.slot.get), 1):
            self.slot[block] = position
        # Marks in slots 1..used; tree[i] counts those in the i & -i slots that end at slot i.
        ends = np.arange(size + 1)
        starts = ends - (ends & -ends)
        self.tree = (np.minimum(ends, self.used) - np.minimum(starts, self.used)).tolist()

    def _add(self, slot, change):
        while slot <= self.size:
            self.tree[slot] += change
            slot += slot & -slot

    def use(self, block):
        """Use a block; its distance, or None if it was never used before."""
        if self.used == self.size:
            self._line(max(1024, 4 * len(self.slot)))
        tree, old, distance = self.tree, self.slot.get(block), None
        if old is not None:
            distance, slot = len(self.slot), old
            while slot:  # take away the marks up to and including its own
                distance -= tree[slot]
                slot &= slot - 1
            self._add(old, -1)
        self.used += 1
        self.slot[block] = self.used
        self._add(self.used, 1)
        return distance


def replay(trace, capacities=(None, 1_000, 10_000, 50_000)):
    """Hit rate of an LRU cache of C blocks = hits / uses, for many C in one pass.

    Every id of a request is a use, in the order of the prompt, and a hit if the block is still
    in the cache. The last, partial block counts as any other: as a block in the share of
    blocks, with the tokens it has in the share of tokens.

    Parameters
    ----------
    trace : path, or iterable of lines or dicts
        As for `read_trace`; streamed. Memory grows with the distinct blocks only.
    capacities : sequence of int or None
        Blocks of 512 tokens that the cache holds, at least 1; None = infinite.

    Returns
    -------
    DataFrame
        A row a capacity, in the order given: capacity (blocks, inf for None), requests, blocks,
        hit_blocks, block_hit_rate, tokens, hit_tokens, token_hit_rate, evicted (blocks).

    Raises
    ------
    ValueError
        If a capacity is not possible, or at a bad line of the trace, with its number.
    """
    capacities = list(capacities)
    sizes = [float("inf") if capacity is None else checks.whole("each of capacities (or None)", capacity, 1)
             for capacity in capacities]
    steps = sorted(set(sizes))
    # A use at distance d hits in every cache larger than d: counted at the smallest of them.
    hit_blocks, hit_tokens = np.zeros(len(steps) + 1, np.int64), np.zeros(len(steps) + 1, np.int64)
    requests = blocks = tokens = 0
    stack = _LruStack()
    for request in read_trace(trace):
        requests += 1
        blocks += len(request.hash_ids)
        tokens += request.input_length
        left = request.input_length
        for block in request.hash_ids:
            distance = stack.use(block)
            if distance is not None:
                step = bisect_right(steps, distance)
                hit_blocks[step] += 1
                hit_tokens[step] += min(left, TRACE_BLOCK)
            left -= TRACE_BLOCK
    at = [steps.index(size) for size in sizes]
    table = pd.DataFrame({"capacity": sizes, "requests": requests, "blocks": blocks}).astype({"capacity": float})
    table["hit_blocks"] = hit_blocks.cumsum()[at]
    table["block_hit_rate"] = table["hit_blocks"] / max(blocks, 1)
    table["tokens"] = tokens
    table["hit_tokens"] = hit_tokens.cumsum()[at]
    table["token_hit_rate"] = table["hit_tokens"] / max(tokens, 1)
    # Every miss puts a block in; what is not there at the end was evicted.
    table["evicted"] = [
        int(blocks - hits - min(size, len(stack.slot))) for hits, size in zip(table["hit_blocks"], sizes)
    ]
    return table


def trace_prompts(trace):
    """Prompts with the sharing of a trace: equal ids become equal tokens, others differ.

    Token j of the block with id h is 512 h + j. So the common prefix of two prompts is that of
    their ids, times 512 (less if it ends with a partial block).

    Parameters
    ----------
    trace : path, or iterable of lines or dicts
        As for `read_trace`; streamed.

    Yields
    ------
    int64 array, shape (input_length,)

    Raises
    ------
    ValueError
        As `read_trace`, or if an id is too large for its tokens to fit int64.
    """
    offsets = np.arange(TRACE_BLOCK)
    for number, request in enumerate(read_trace(trace), 1):
        if max(request.hash_ids) > LARGEST_ID:
            raise ValueError(f"request {number}: ids must be at most {LARGEST_ID}; got {max(request.hash_ids)}")
        ids = np.array(request.hash_ids, dtype=np.int64)
        yield (ids[:, None] * TRACE_BLOCK + offsets).ravel()[: request.input_length]
