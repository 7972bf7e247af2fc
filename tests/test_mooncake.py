"""Reading traces, and the one-pass hit-rate curve against a plain LRU for each capacity."""

import importlib.util
import json
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.mooncake import _LruStack
from labkit.prefix_cache import BlockCache, RadixCache, read_trace, replay, replay_prompts, trace_prompts

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "data" / "mooncake_sample.jsonl"
GOOD = {"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [3, 4]}


def entry(ids, last=512, timestamp=0):
    return {"timestamp": timestamp, "input_length": 512 * (len(ids) - 1) + last, "output_length": 1, "hash_ids": ids}


def plain_lru(entries, capacity):
    """(blocks hit, tokens hit, evictions) of one cache, the obvious way."""
    cache, hits, tokens, evicted = OrderedDict(), 0, 0, 0
    for e in entries:
        for k, block in enumerate(e["hash_ids"]):
            if block in cache:
                hits += 1
                tokens += len(range(512 * k, min(512 * (k + 1), e["input_length"])))
                cache.move_to_end(block)
            else:
                cache[block] = True
                if len(cache) > capacity:
                    cache.popitem(last=False)
                    evicted += 1
    return hits, tokens, evicted


def check_against_plain_lru(entries, capacities):
    table = replay(entries, capacities)
    for capacity, row in zip(capacities, table.itertuples()):
        size = float("inf") if capacity is None else capacity
        assert row.capacity == size
        assert (row.hit_blocks, row.hit_tokens, row.evicted) == plain_lru(entries, size)
        assert row.block_hit_rate == row.hit_blocks / sum(len(e["hash_ids"]) for e in entries)
        assert row.token_hit_rate == row.hit_tokens / sum(e["input_length"] for e in entries)


REQUESTS = st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 512))


@given(st.lists(REQUESTS, min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_every_capacity_in_one_pass_is_a_plain_lru(requests):
    check_against_plain_lru([entry(ids, last) for ids, last in requests], [3, None, 1, 2, 5, 5, 10, 100])


def test_the_sample_and_a_long_trace_against_a_plain_lru():
    check_against_plain_lru([r._asdict() for r in read_trace(SAMPLE)], [None, 1, 10, 60, 200, 1_000])
    rng = np.random.default_rng(3)
    ids = rng.exponential(600, size=(1_500, 6)).astype(int).tolist()  # long enough to pack the line
    check_against_plain_lru([entry(i) for i in ids], [None, 30, 500, 2_000])


def test_memory_stays_within_a_few_times_the_distinct_blocks():
    stack = _LruStack()
    for use in range(50_000):
        stack.use(use % 300)
    assert len(stack.slot) == 300 and len(stack.tree) <= 1_300


def test_the_measure_counts_partial_blocks_as_blocks_and_by_their_tokens():
    table = replay([entry([0, 1], last=88), entry([0, 1], last=88), entry([0, 2])], [None])
    row = table.iloc[0]
    assert (row["blocks"], row["hit_blocks"], row["evicted"]) == (6, 3, 0)
    assert (row["tokens"], row["hit_tokens"]) == (600 + 600 + 1024, 600 + 512)


def test_a_larger_cache_never_hits_less():
    table = replay(SAMPLE, [1, 5, 20, 50, 100, 200, 400, None])
    assert table["hit_blocks"].is_monotonic_increasing and table["evicted"].is_monotonic_decreasing
    assert table["capacity"].iloc[-1] == np.inf and table["evicted"].iloc[-1] == 0


def test_no_requests_is_a_table_of_zeros():
    assert replay([], [None, 4])[["block_hit_rate", "token_hit_rate"]].to_numpy().tolist() == [[0, 0], [0, 0]]


# --- reading --------------------------------------------------------------------------------------


def test_a_path_its_lines_and_its_entries_read_the_same(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "more": 1}), encoding="utf-8")
    expected = [tuple(GOOD.values())] * 2
    lines = path.read_text(encoding="utf-8").split("\n")
    for source in (path, str(path), lines, path.read_bytes().splitlines(), [GOOD, GOOD], list(read_trace(path))):
        assert list(read_trace(source)) == expected


BAD = [
    ("{", "not JSON"), (b"\xff\xfe{", "not JSON"), ("[1]", "must be an object"), ("3", "must be an object"),
    ({k: v for k, v in GOOD.items() if k != "hash_ids"}, "hash_ids missing"),
    ({}, "timestamp and input_length and output_length and hash_ids missing"),
    ({**GOOD, "timestamp": -1}, "timestamp"), ({**GOOD, "timestamp": "5"}, "timestamp"),
    ({**GOOD, "timestamp": True}, "timestamp"), ({**GOOD, "timestamp": float("nan")}, "timestamp"),
    ({**GOOD, "timestamp": 4}, "timestamp 4 is before the 5"),
    ({**GOOD, "input_length": -600}, "input_length"), ({**GOOD, "input_length": 600.0}, "input_length"),
    ({**GOOD, "input_length": 0, "hash_ids": []}, "input_length"), ({**GOOD, "input_length": None}, "input_length"),
    ({**GOOD, "output_length": -1}, "output_length"), ({**GOOD, "output_length": False}, "output_length"),
    ({**GOOD, "hash_ids": [3]}, "2 ids for an input_length of 600; got 1"), ({**GOOD, "hash_ids": [3, 4, 5]}, "got 3"),
    ({**GOOD, "hash_ids": [3, 4.0]}, "hash_ids"), ({**GOOD, "hash_ids": [3, True]}, "hash_ids"),
    ({**GOOD, "hash_ids": [3, -4]}, "hash_ids"), ({**GOOD, "hash_ids": "34"}, "hash_ids"),
    ({**GOOD, "hash_ids": {"3": 4}}, "hash_ids"), ({**GOOD, "hash_ids": [3, "4"]}, "hash_ids"),
]


@pytest.mark.parametrize("bad, message", BAD)
def test_a_bad_line_is_refused_with_its_number(bad, message):
    with pytest.raises(ValueError, match=f"line 3: .*{message}"):
        replay([GOOD, "", bad, GOOD])


def test_a_trace_is_streamed():
    def endless():
        while True:
            yield GOOD

    lines = endless()
    reader = read_trace(lines)
    assert [next(reader).input_length for _ in range(3)] == [600] * 3
    assert next(trace_prompts(endless())).size == 600


@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "9", float("inf")])
def test_impossible_capacities_are_refused(bad):
    with pytest.raises(ValueError, match="capacities"):
        replay([GOOD], [None, bad])


# --- prompts --------------------------------------------------------------------------------------


def test_prompts_share_what_their_ids_share():
    requests, prompts = list(read_trace(SAMPLE)), list(trace_prompts(SAMPLE))
    assert [len(p) for p in prompts] == [r.input_length for r in requests]
    for i in range(0, len(prompts), 7):
        for j in range(i + 1, len(prompts), 11):
            a, b = requests[i].hash_ids, requests[j].hash_ids
            shared = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            expected = min(512 * shared, len(prompts[i]), len(prompts[j]))
            p, q = prompts[i].tolist(), prompts[j].tolist()
            assert next((k for k, (x, y) in enumerate(zip(p, q)) if x != y), min(len(p), len(q))) == expected


def test_the_exact_caches_agree_with_the_replay_where_all_blocks_are_full():
    full = [r._asdict() for r in read_trace(SAMPLE)]
    for e in full:  # one token more, so that the look-up may reach the last full block
        blocks = e["input_length"] // 512
        e["hash_ids"] = e["hash_ids"][:blocks]
        e["input_length"] = 512 * blocks
    full = [e for e in full if e["hash_ids"]]
    hits = int(replay(full, [None])["hit_tokens"].iloc[0])
    prompts = [np.append(p, -1 - k) for k, p in enumerate(trace_prompts(full))]
    for cache in (BlockCache(block_size=512), RadixCache()):
        assert sum(cache.request(p).hit for p in prompts) == hits
    assert replay_prompts(prompts, "radix")["hit"].sum() == hits


def test_an_id_too_large_for_its_tokens_is_refused():
    assert next(trace_prompts([entry([2**63 // 512 - 2])]))[-1] > 0
    with pytest.raises(ValueError, match="ids must be at most"):
        next(trace_prompts([entry([2**63 // 512])]))


def test_the_sample_is_what_its_generator_makes():
    path = ROOT / "tools" / "make_mooncake_sample.py"
    spec = importlib.util.spec_from_file_location("make_mooncake_sample", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.sample() == [r._asdict() for r in read_trace(SAMPLE)]
    assert SAMPLE.stat().st_size < 100_000
    assert 200 <= len(module.sample()) <= 400


def test_a_trace_of_a_wrong_kind_is_refused():
    with pytest.raises(ValueError, match="trace must be a path, or lines or entries of a trace; got None"):
        list(read_trace(None))
