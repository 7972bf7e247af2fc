"""Prefix caches against slow twins built on other data structures, and against their laws."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.block_cache import chained_hashes
from labkit.prefix_cache import (
    PREFIX_CACHES,
    BlockCache,
    Hit,
    RadixCache,
    SessionCache,
    replay_prompts,
)

# --- twins: nothing but lists, dicts and tuples; generation one token at a time ------------------


class RadixTwin:
    """A node is the tuple of all tokens down to its end; {node: time of last use}.

    Parents, children, locks and sizes are not stored but looked for among the tuples.
    """

    def __init__(self, tokens):
        self.capacity = float("inf") if tokens is None else tokens
        self.nodes, self.clock, self.running = {}, 0, {}
        self.private = 0  # tokens computed but not yet in the tree

    def parent(self, node):
        return max((p for p in self.nodes if len(p) < len(node) and node[: len(p)] == p), key=len, default=())

    def used(self):
        return self.private + sum(len(node) - len(self.parent(node)) for node in self.nodes)

    def locked(self, node):
        return any(held[: len(node)] == node for held in self.running.values())

    def leaves(self):
        return [n for n in self.nodes if not any(len(m) > len(n) and m[: len(n)] == n for m in self.nodes)]

    def evict(self, needed):
        lost = 0
        while self.capacity - self.used() < needed:
            free = [n for n in self.leaves() if not self.locked(n)]
            if not free:
                break
            oldest = min(free, key=self.nodes.get)
            lost += len(oldest) - len(self.parent(oldest))
            del self.nodes[oldest]
        return lost

    def match(self, seq):
        self.clock += 1
        length = max((k for n in self.nodes for k in range(len(seq) + 1) if n[:k] == seq[:k]), default=0)
        found = seq[:length]
        below = [n for n in self.nodes if len(n) > length and n[:length] == found]
        inside = found and found not in self.nodes
        for node in self.nodes:
            if found[: len(node)] == node:
                self.nodes[node] = self.clock
        if inside:
            self.nodes[min(below, key=len)] = self.clock  # the unmatched rest
            self.clock += 1
            self.nodes[found] = self.clock
        return length

    def insert(self, seq):
        self.match(seq)
        self.clock += 1
        if seq and seq not in self.nodes:
            self.nodes[seq] = self.clock

    def start(self, name, prompt):
        n, hit = len(prompt), self.match(prompt[:-1])
        self.running[name] = prompt[:hit]
        lost = self.evict(n - hit)
        if self.capacity - self.used() < n - hit:
            del self.running[name]
            return Hit(0, n, lost, True)
        self.insert(prompt)
        self.running[name] = prompt
        return Hit(hit, n - hit, lost, False)

    def finish(self, name, output):
        prompt, lost = self.running[name], 0
        for k in range(len(output) - 1):
            lost += self.evict(1)
            if self.capacity - self.used() < 1:
                break
            self.private += 1
        grown, self.private = self.private, 0
        self.insert(prompt + output[:grown])
        del self.running[name]
        return lost


class BlockTwin:
    """Physical blocks in one literal free list; a block's hash is the tuple of all tokens to its end."""

    def __init__(self, blocks, size):
        self.size, self.infinite = size, blocks is None
        self.free = list(range(blocks or 0))
        self.hash, self.since, self.users = {}, {}, {}
        self.clock, self.running, self.fresh = 0, {}, blocks or 0

    def find(self, content):
        return min((b for b, c in self.hash.items() if c == content), key=self.since.get, default=None)

    def take(self):
        if self.infinite:
            self.fresh += 1
            block, lost = self.fresh, 0
        else:
            block = self.free.pop(0)
            lost = self.size if self.hash.pop(block, None) else 0
        self.users[block] = 1
        return block, lost

    def fill(self, block, content):
        self.clock += 1
        self.hash[block], self.since[block] = content, self.clock

    def start(self, name, prompt):
        n, size, table = len(prompt), self.size, []
        for end in range(size, n, size):
            block = self.find(prompt[:end])
            if block is None:
                break
            table.append(block)
        hit, need = len(table), -(-n // size) - len(table)
        if not self.infinite and need > len([b for b in self.free if b not in table]):
            return Hit(0, n, 0, True)
        for block in table:
            if block in self.free:
                self.free.remove(block)
            self.users[block] += 1
        lost = 0
        for _ in range(need):
            block, died = self.take()
            table.append(block)
            lost += died
        for i in range(hit, n // size):
            self.fill(table[i], prompt[: (i + 1) * size])
        self.running[name] = table, prompt
        return Hit(hit * size, n - hit * size, lost, False)

    def finish(self, name, output):
        table, seq = self.running.pop(name)
        lost = 0
        for token in output[:-1]:
            if len(seq) == len(table) * self.size:
                if not self.infinite and not self.free:
                    break
                block, died = self.take()
                table.append(block)
                lost += died
            seq += (token,)
            if len(seq) % self.size == 0:
                self.fill(table[-1], seq)
        for block in reversed(table):
            self.users[block] -= 1
            if not self.users[block]:
                self.free.insert(len(self.free) if block in self.hash else 0, block)
        return lost


# --- random histories: shared prefixes, repeats, overlap, generation, refusal -------------------


def some_tokens(rng, longest, alphabet, seen):
    """A sequence that often goes on from, or repeats, part of an earlier one."""
    base = rng.choice(seen) if seen and rng.random() < 0.8 else ()
    base = base[: rng.randint(0, len(base))] if rng.random() < 0.6 else base
    new = rng.randint(0, longest) if base and rng.random() < 0.8 else rng.randint(1, longest)
    return (base + tuple(rng.randrange(alphabet) for _ in range(new)))[: 3 * longest] or (0,)


def compare(cache, twin, seed, steps, longest=12, alphabet=3, at_once=4):
    """Play the same random starts and finishes to both; every answer must be the same."""
    rng = random.Random(seed)
    seen, running, refusals, losses, lost = [], {}, 0, 0, {}
    for step in range(steps):
        if running and (len(running) == at_once or rng.random() < 0.5):
            name = rng.choice(list(running))
            handle, expected = running.pop(name)
            output = tuple(rng.randrange(alphabet) for _ in range(rng.choice((0, 1, 2, 5, longest))))
            if rng.random() < 0.5:  # say what an earlier one said: it may be in the cache already
                output = next((s[len(name[1]) :] for s in seen if s[: len(name[1])] == name[1]), ()) + output
            if not expected.refused:
                lost = twin.finish(name, output)
                expected = expected._replace(evicted=expected.evicted + lost)
            assert cache.finish(handle, output) == expected, (seed, step)
            seen.append(name[1] + output)
        else:
            name = step, some_tokens(rng, longest, alphabet, seen[-12:])
            handle, expected = cache.start(name[1]), twin.start(name, name[1])
            got = Hit(handle.hit, handle.miss, handle.evicted, handle.refused)
            assert got == expected, (seed, step)
            running[name] = handle, expected
            seen.append(name[1])
        refusals += expected.refused
        losses += expected.evicted > 0
    return refusals, losses


@pytest.mark.parametrize("tokens", [None, 0, 1, 7, 20, 40, 80])
def test_radix_is_its_twin(tokens):
    refusals, losses = np.sum([compare(RadixCache(tokens), RadixTwin(tokens), s, 60) for s in range(30)], axis=0)
    assert (refusals == 0) == (tokens is None)
    if tokens in (7, 20, 40):  # the histories must reach what they are there for
        assert losses


@pytest.mark.parametrize("size", [1, 2, 4, 7])
@pytest.mark.parametrize("blocks", [None, 0, 1, 5, 12, 40])
def test_blocks_are_their_twin(blocks, size):
    counts = [compare(BlockCache(blocks, size), BlockTwin(blocks, size), s, 80) for s in range(12)]
    refusals, losses = np.sum(counts, axis=0)
    if blocks is None:
        assert refusals == losses == 0
    if blocks in (5, 12):
        assert refusals and losses


@pytest.mark.parametrize("blocks", [6, 9, 12, 16])
def test_blocks_are_their_twin_when_many_carry_the_same_hash(blocks):
    for seed in range(40):
        compare(BlockCache(blocks, 2), BlockTwin(blocks, 2), seed, 120, longest=4, alphabet=2, at_once=2 + seed % 4)


@pytest.mark.parametrize("make, twin", [
    (lambda: RadixCache(60), lambda: RadixTwin(60)),
    (lambda: BlockCache(14, 4), lambda: BlockTwin(14, 4)),
])
def test_a_long_history_one_request_at_a_time(make, twin):
    compare(make(), twin(), seed=99, steps=3_000, at_once=1)
    compare(make(), twin(), seed=98, steps=1_500, at_once=3, alphabet=2)


# --- laws ---------------------------------------------------------------------------------------

SEQUENCE = st.lists(st.integers(0, 2), min_size=1, max_size=14)
REQUESTS = st.lists(st.tuples(SEQUENCE, st.lists(st.integers(0, 2), max_size=6)), min_size=1, max_size=14)


def longest_common_prefix(seq, earlier):
    return max((k for e in earlier for k in range(min(len(e), len(seq)) + 1) if e[:k] == seq[:k]), default=0)


@given(REQUESTS, st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_infinite_caches_hit_the_longest_common_prefix(requests, size):
    radix, blocks, earlier = RadixCache(), BlockCache(block_size=size), []
    for prompt, output in requests:
        expected = min(longest_common_prefix(prompt, earlier), len(prompt) - 1)
        assert radix.request(prompt, output) == (expected, len(prompt) - expected, 0, False)
        floored = expected // size * size
        assert blocks.request(prompt, output) == (floored, len(prompt) - floored, 0, False)
        earlier.append(prompt + output[:-1])


@given(REQUESTS, st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_tokens_are_conserved_and_capacity_is_kept(requests, capacity, size):
    for cache in (RadixCache(capacity), BlockCache(capacity // size, size)):
        hits = [cache.request(*request) for request in requests]
        for (prompt, _), hit in zip(requests, hits):
            assert hit.hit + hit.miss == len(prompt) and hit.miss >= 1 and hit.evicted >= 0
            assert not hit.refused or hit.hit == 0
        assert cache.cached_tokens <= capacity
        assert cache.prompt_tokens == sum(len(prompt) for prompt, _ in requests)
        assert cache.hit_rate == pytest.approx(sum(h.hit for h in hits) / cache.prompt_tokens)


@given(REQUESTS, st.integers(1, 20), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_no_stored_hash_without_its_parents(requests, blocks, size):
    cache, starts = BlockCache(blocks, size), set()
    for prompt, output in requests:
        cache.request(prompt, output)
        whole = tuple(prompt + output)
        starts |= {whole[:end] for end in range(size, len(whole) + 1, size)}

        def stored(prefix):  # one more block makes the look-up reach the end of `prefix`
            return chained_hashes(b"", np.array(prefix).tobytes(), 8 * size)[-1] in cache._stored

        for prefix in starts:
            if stored(prefix) and len(prefix) > size:
                assert stored(prefix[:-size])


@given(st.lists(st.sampled_from(("append", "edit", "evict")), max_size=25))
def test_a_session_is_an_infinite_radix_tree_on_prompts_with_new_changes(events):
    fresh = iter(range(10**6))
    system, working, queue = [next(fresh) for _ in range(5)], [next(fresh) for _ in range(4)], [[next(fresh)]]
    session, radix = SessionCache(), RadixCache()
    for event in events:
        queue.append([next(fresh), next(fresh)])
        if event == "edit":
            working = [next(fresh) for _ in range(4)]
        if event == "evict":
            queue = [[next(fresh)], queue[-1]]
        prompt = system + working + sum(queue, [])
        assert session.request(prompt) == radix.request(prompt)


def test_a_session_keeps_the_previous_sequence_only():
    cache = SessionCache()
    assert cache.request([1, 2, 3], output=[4, 5]) == (0, 3, 0, False)
    assert cache.request([1, 2, 3, 4, 5, 6]) == (4, 2, 0, False)  # 5 ended the answer: no KV
    assert cache.request([1, 9]) == (1, 1, 0, False)
    assert cache.request([1, 2, 3]) == (1, 2, 0, False)
    assert cache.request([1, 2, 3]) == (2, 1, 0, False)  # the last token is always computed


# --- fixed examples -----------------------------------------------------------------------------


def test_a_shared_prefix_shorter_than_a_block_hits_nothing():
    shared = list(range(240))
    cache = BlockCache(block_size=784)
    cache.request(shared + [1000 + i for i in range(2000)])
    assert cache.request(shared + [5000 + i for i in range(2000)]).hit == 0
    radix = RadixCache()
    radix.request(shared + [1000])
    assert radix.request(shared + [2000]).hit == 240


@pytest.mark.parametrize("n, rate", [(1024, 0), (1025, 0.9990), (2047, 0.5002), (4096, 0.7500)])
def test_a_repeated_prompt_recomputes_what_is_not_a_full_block_before_its_end(n, rate):
    for blocks in (None, 20):
        cache = BlockCache(blocks, block_size=1024)
        cache.request(range(n))
        assert cache.request(range(n)).hit / n == pytest.approx(rate, abs=5e-5)


def test_a_look_up_stops_at_a_block_taken_out_by_hand():
    for blocks in (None, 10):
        cache = BlockCache(blocks, block_size=1)
        cache.request([1, 2, 3])
        assert cache.drop([1]) == 1 and cache.drop([1]) == 0
        assert cache.request([1, 2, 3]).hit == 0
        assert cache.request([1, 2, 3]).hit == 2  # block 1 is back; 2 was never away


def test_a_block_dropped_while_in_use_is_free_and_blank_afterwards():
    cache = BlockCache(4, block_size=2)
    handle = cache.start([1, 2, 3, 4, 5])
    assert cache.drop([1, 2]) == 2
    cache.finish(handle)
    assert cache.request([1, 2, 3, 4, 5]) == (0, 5, 0, False)  # 3 blocks: blank ones first
    assert cache.request([7] * 8) == (0, 8, 4 + 2, False)


def test_the_oldest_of_two_blocks_with_one_hash_is_the_one_that_hits():
    cache = BlockCache(3, block_size=2)
    cache.request([1, 2])
    cache.request([1, 2])  # computed again, into a second block
    assert cache.cached_tokens == 2
    assert cache.request([1, 2, 3]) == (2, 1, 0, False)  # the oldest moves behind the second
    assert cache.request([5, 6, 7, 8]) == (0, 4, 2, False)  # a blank one, then the second
    assert cache.request([1, 2, 3]).hit == 2


def test_an_overlapping_request_hits_blocks_of_a_running_one():
    cache = BlockCache(4, block_size=2)
    first = cache.start([1, 2, 3, 4, 5])
    second = cache.start([1, 2, 3, 4, 6])
    third = cache.start([9, 9])
    assert (second.hit, second.refused, third.refused) == (4, False, True)
    assert cache.finish(third, [1, 2, 3]) == (0, 2, 0, True)
    cache.finish(second)
    assert cache.request([9, 9]) == (0, 2, 0, False)
    cache.finish(first)


def test_generation_ends_where_no_block_is_free():
    cache = BlockCache(2, block_size=2)
    cache.request([1, 2], output=[3, 4, 5, 6, 7])
    assert cache.cached_tokens == 4
    assert cache.request([1, 2, 3]).hit == 2


def test_radix_evicts_a_whole_leaf_and_then_its_parent_at_its_own_time():
    cache = RadixCache(9)
    cache.request([1, 2, 3, 4, 5])
    cache.request([1, 2, 6, 7])  # 1 2 | 3 4 5 and 6 7
    assert cache.cached_tokens == 7
    assert cache.request([8, 9, 10]) == (0, 3, 3, False)  # short by 1, loses 3 4 5
    assert cache.request([1, 2, 6, 7, 0]) == (4, 1, 0, False)


def test_radix_refuses_but_keeps_what_it_evicted():
    cache = RadixCache(6)
    cache.request([1, 2, 3])
    running = cache.start([4, 5])
    assert cache.request([6, 7, 8, 9, 10]) == (0, 5, 3, True)
    assert cache.cached_tokens == 2
    assert cache.finish(running, [1, 1, 1, 1, 1, 1, 1, 1]) == (0, 2, 0, False)
    assert cache.cached_tokens == 6  # generation ended when the cache was full


def test_radix_needs_room_for_what_it_recomputes():
    cache = RadixCache(4)
    running = cache.start([1, 2, 3, 4])
    assert cache.start([1, 2, 3, 4]).refused  # the last token, though it is in the tree
    cache.finish(running)


# --- input --------------------------------------------------------------------------------------

ALL = [SessionCache, RadixCache, BlockCache, lambda: RadixCache(30), lambda: BlockCache(30, 2)]


@pytest.mark.parametrize("make", ALL)
def test_lists_tuples_and_arrays_are_the_same_tokens(make):
    kinds = [list, tuple, np.array, lambda x: np.array(x, np.int32), lambda x: np.array(x, np.uint64),
             lambda x: np.repeat(np.array(x), 2)[::2]]
    answers = []
    for kind in kinds:
        cache = make()
        prompts = ([5, 1, 2, 3, 7], [5, 1, 2, 3, 8, 9], [5, 1, 2])
        answers.append([cache.request(kind(p), kind([4, 4])) for p in prompts])
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("make", ALL)
def test_the_caller_may_change_its_array_afterwards(make):
    cache, prompt = make(), np.arange(9)
    cache.request(prompt)
    prompt[:] = 77
    assert cache.request(list(range(9))).hit in (8, 0)
    assert cache.request([77] * 9).hit == 0


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("bad", [[], (), np.array([]), [1.0], [1, "a"], "abc", [True, False], 5, None,
                                 {1, 2}, {1: 2}, np.array([1.5]), np.zeros((2, 2), int), [2**63], np.array([2**63], np.uint64)])
def test_bad_prompts_are_refused_and_change_nothing(make, bad):
    cache = make()
    with pytest.raises(ValueError, match="prompt"):
        cache.request(bad)
    assert cache.prompt_tokens == 0
    if np.size(bad):
        with pytest.raises(ValueError, match="output"):
            cache.request([1, 2], bad)
        assert cache.request([1, 2]).hit == 0


@pytest.mark.parametrize("make", ALL)
def test_a_handle_is_finished_once_and_where_it_started(make):
    cache, other = make(), make()
    handle = cache.start([1, 2])
    for wrong in (None, 3, other.start([1, 2])):
        with pytest.raises(ValueError, match="handle"):
            cache.finish(wrong)
    with pytest.raises(ValueError, match="output"):
        cache.finish(handle, [0.5])
    assert cache.finish(handle) == (0, 2, 0, False)
    with pytest.raises(ValueError, match="finished before"):
        cache.finish(handle)


@pytest.mark.parametrize("make", [
    lambda: RadixCache(-1), lambda: RadixCache(1.0), lambda: RadixCache(True), lambda: BlockCache(-1),
    lambda: BlockCache(5, 0), lambda: BlockCache(5, -2), lambda: BlockCache(block_size=None),
    lambda: BlockCache("5"), lambda: BlockCache(float("nan")), lambda: BlockCache(5, True),
])
def test_impossible_sizes_are_refused(make):
    with pytest.raises(ValueError, match="whole number"):
        make()


def test_replay_prompts_sends_them_through_either_cache():
    prompts = [np.arange(10), np.arange(12), np.arange(3)]
    for name in PREFIX_CACHES:
        table = replay_prompts(prompts, name, block_size=2)
        assert (table["hit"] + table["miss"]).tolist() == [10, 12, 3]
        assert table["hit"].tolist() == [0, 10, 2]
    assert replay_prompts(prompts, "blocks", tokens=3, block_size=2)["refused"].tolist() == [True, True, True]
    with pytest.raises(ValueError, match="blocks, radix"):
        replay_prompts(prompts, "lfu")
