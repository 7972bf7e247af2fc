"""A prefix cache as a radix tree of tokens with LRU eviction of leaves, as SGLang keeps it."""

import heapq
from itertools import count

from labkit.cache_base import TOKEN, Handle, PrefixCache, check_capacity, common_prefix


class _Node:
    """A span of tokens in the radix tree, below the prefix that its ancestors spell."""

    __slots__ = ("key", "parent", "children", "locks", "time", "queued")

    def __init__(self, key, parent, time, locks=0):
        self.key = key  # its tokens, as bytes
        self.parent = parent
        self.children = {}  # first token -> node
        self.locks = locks  # running requests whose prompt passes through
        self.time = time  # last use
        self.queued = False  # has an entry in the eviction queue


class RadixCache(PrefixCache):
    """Every prefix, token by token, in a radix tree; evicts the least recently used leaf.

    Start: match on ``prompt[:n-1]`` (a match that ends inside a node splits it and refreshes
    the rest too); find room for n - hit tokens, evicting whole leaves while short; insert the
    prompt and lock its path. Finish: find room for the generated tokens, stop where there is
    none; insert them below the prompt, refresh the path, unlock it.

    Parameters
    ----------
    tokens : int, optional
        Capacity in tokens of KV; None = infinite.

    Raises
    ------
    ValueError
        If `tokens` is negative or not a whole number.
    """

    def __init__(self, tokens=None):
        super().__init__()
        self.tokens = check_capacity(tokens, "tokens")
        self.cached_tokens = 0
        self._clock = count(1)
        self._root = _Node(b"", None, 0)
        # Heap of (time, push number, node): every unlocked leaf has an entry, perhaps an old one.
        self._queue = []
        self._pushes = count()

    def _start(self, prompt):
        n = len(prompt) // TOKEN
        node, matched = self._match(self._root, prompt[:-TOKEN])
        hit = matched // TOKEN
        self._lock(node, self._root)  # or making room might evict the hit itself
        evicted = self._make_room(n - hit)
        if self._room() < n - hit:
            self._unlock(node)
            self._offer(node)
            return Handle(self, 0, n, evicted, refused=True)
        end = self._insert(node, prompt[matched:])
        self._lock(end, node)
        return Handle(self, hit, n - hit, evicted, held=end)

    def _finish(self, handle, generated):
        wanted = len(generated) // TOKEN
        evicted = self._make_room(wanted)
        generated = generated[: min(wanted, self._room()) * TOKEN]
        self._unlock(handle.held, refresh=next(self._clock))
        self._offer(self._insert(handle.held, generated))
        return evicted

    def _match(self, node, tokens):
        """Follow `tokens` down from `node`, refreshing, splitting; (last node, bytes matched)."""
        now, at = next(self._clock), 0
        while at < len(tokens):
            child = node.children.get(tokens[at : at + TOKEN])
            if child is None:
                break
            child.time = now
            if not tokens.startswith(child.key, at):
                common = common_prefix(child.key, tokens[at:])
                return self._split(child, common), at + common
            at += len(child.key)
            node = child
        return node, at

    def _split(self, rest, length):
        """Put the first `length` bytes of a node into a new parent of it, locked alike."""
        upper = _Node(rest.key[:length], rest.parent, rest.time, rest.locks)
        upper.parent.children[upper.key[:TOKEN]] = upper
        rest.key, rest.parent = rest.key[length:], upper
        upper.children[rest.key[:TOKEN]] = rest
        return upper

    def _insert(self, node, tokens):
        """Add what the tree lacks of `tokens` below `node` as one leaf; the node where they end."""
        node, at = self._match(node, tokens)
        if at == len(tokens):
            return node
        leaf = _Node(tokens[at:], node, next(self._clock))
        node.children[leaf.key[:TOKEN]] = leaf
        self.cached_tokens += len(leaf.key) // TOKEN
        return leaf

    def _lock(self, node, above):
        """Lock the path from `node` up to, without, `above`."""
        while node is not above:
            node.locks += 1
            node = node.parent

    def _unlock(self, node, refresh=None):
        """Unlock the path from `node` up to the root; the time `refresh` is that of its last use."""
        while node is not self._root:
            node.locks -= 1
            node.time = refresh or node.time
            node = node.parent

    def _room(self):
        return float("inf") if self.tokens is None else self.tokens - self.cached_tokens

    def _make_room(self, needed):
        """Evict leaves, least recently used first, while room is short; tokens evicted."""
        before = self.cached_tokens
        while self._room() < needed and (leaf := self._oldest_leaf()) is not None:
            del leaf.parent.children[leaf.key[:TOKEN]]
            self.cached_tokens -= len(leaf.key) // TOKEN
            self._offer(leaf.parent)
        return before - self.cached_tokens

    def _offer(self, node):
        """Queue a node for eviction if it is an unlocked leaf (and anything is ever evicted)."""
        evictable = not (node.children or node.locks or node is self._root)
        if evictable and not node.queued and self.tokens is not None:
            node.queued = True
            heapq.heappush(self._queue, (node.time, next(self._pushes), node))

    def _oldest_leaf(self):
        """Take the least recently used unlocked leaf from the queue; None if there is none."""
        while self._queue:
            time, _, node = heapq.heappop(self._queue)
            node.queued = False
            if node.time == time and not node.children and not node.locks:
                return node
            self._offer(node)  # used since it was queued: back in, with its present time
