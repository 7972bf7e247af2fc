"""A prefix cache as a pool of hashed blocks with one free list, as vLLM keeps it."""

from collections import OrderedDict
from hashlib import sha256

from labkit import checks
from labkit.cache_base import TOKEN, Handle, PrefixCache, as_bytes, check_capacity


class _Block:
    """A full block: the hash that it carries and the number of running requests that hold it."""

    __slots__ = ("digest", "users")

    def __init__(self, digest):
        self.digest = digest
        self.users = 1


class BlockCache(PrefixCache):
    """Full blocks of B tokens under chained hashes; one free list.

    hash_i = sha256(hash_{i-1} + tokens of block i), so a hash stands for the whole prefix. A
    look-up covers at most floor((n-1)/B) blocks and stops at the first one missing.

    Free blocks are handed out from the front of the list. A finished request returns its blocks
    tail first, those with a hash to the back and the one without to the front; a hash dies when
    its block is handed out again. So every block without a hash stands before every one with
    a hash, and the list is a number and a queue.

    Parameters
    ----------
    blocks : int, optional
        Blocks in the pool; None = infinite: no block is ever handed out twice.
    block_size : int
        Tokens a block, B. 16 is vLLM's default.

    Raises
    ------
    ValueError
        If `blocks` is negative, `block_size` below 1, or one of them not a whole number.
    """

    def __init__(self, blocks=None, block_size=16):
        super().__init__()
        self.blocks = check_capacity(blocks, "blocks")
        self.block_size = checks.whole("block_size", block_size, 1)
        self._stored = {}  # hash -> the oldest block that carries it
        self._twins = {}  # hash -> the other blocks that carry it, oldest first
        self._blank = self.blocks  # free blocks without a hash
        self._idle = OrderedDict()  # free blocks with a hash, the next to be handed out first

    @property
    def cached_tokens(self):
        """Tokens that a look-up can find (a hash counts once, however many blocks carry it)."""
        return len(self._stored) * self.block_size

    def _start(self, prompt):
        n, width = len(prompt) // TOKEN, self.block_size * TOKEN
        hashes = chained_hashes(b"", prompt, width)
        held = []
        for digest in hashes[: (n - 1) // self.block_size]:
            block = self._stored.get(digest)
            if block is None:
                break
            held.append(block)
        hits = len(held)
        new = -(-n // self.block_size) - hits
        if new > self._free() - sum(not block.users for block in held):
            return Handle(self, 0, n, refused=True)
        for block in held:
            if not block.users:
                self._idle.pop(block, None)
            block.users += 1
        evicted = self._take(new)
        held += [self._store(digest) for digest in hashes[hits:]]
        last, tail = (hashes or [b""])[-1], prompt[len(hashes) * width :]
        hit = hits * self.block_size
        return Handle(self, hit, n - hit, evicted, held=(held, last, tail))

    def _finish(self, handle, generated):
        held, last, tail = handle.held
        data, width = tail + generated, self.block_size * TOKEN
        evicted, partial = 0, False
        for at in range(0, len(data), width):
            if at or not tail:  # the first piece goes on in the prompt's own last block
                if not self._free():
                    break  # generation ends here
                evicted += self._take(1)
            full = chained_hashes(last, data[at : at + width], width)
            if full:
                last = full[0]
                held.append(self._store(last))
            partial = not full
        self._release(held, partial)
        return evicted

    def drop(self, prefix):
        """Take the last block of `prefix` out by hand, every copy of it; tokens lost.

        The blocks before and after it stay. No request ever brings this about: children are
        handed out before their parents. An idle copy becomes a blank block; one that a
        request holds just loses its hash.

        Raises
        ------
        ValueError
            If `prefix` is not a whole number of blocks, at least one.
        """
        data, width = as_bytes(prefix, "prefix"), self.block_size * TOKEN
        if not data or len(data) % width:
            raise ValueError(
                f"prefix: must be whole blocks of {self.block_size} tokens; "
                f"got {len(data) // TOKEN} tokens"
            )
        digest = chained_hashes(b"", data, width)[-1]
        if digest not in self._stored:
            return 0
        copies = [self._stored.pop(digest), *self._twins.pop(digest, ())]
        for block in copies:
            block.digest = None
            if block in self._idle:
                del self._idle[block]
                self._blank += 1
        return len(copies) * self.block_size

    def _free(self):
        return float("inf") if self.blocks is None else self._blank + len(self._idle)

    def _take(self, number):
        """Take free blocks from the front of the list; tokens of the hashes that died."""
        if self.blocks is None:
            return 0
        blank = min(number, self._blank)
        self._blank -= blank
        for _ in range(number - blank):
            block, _ = self._idle.popitem(last=False)
            self._forget(block)
        return (number - blank) * self.block_size

    def _store(self, digest):
        """A taken block is full: give it its hash."""
        block = _Block(digest)
        if self._stored.setdefault(digest, block) is not block and self.blocks is not None:
            self._twins.setdefault(digest, []).append(block)
        return block

    def _forget(self, block):
        twins = self._twins.get(block.digest, [])
        if self._stored[block.digest] is not block:
            twins.remove(block)
        elif twins:
            self._stored[block.digest] = twins.pop(0)
        else:
            del self._stored[block.digest]
        if not twins:
            self._twins.pop(block.digest, None)

    def _release(self, held, partial):
        """Return blocks tail first; `partial`: the tail is a block without a hash."""
        if self.blocks is None:
            return  # nothing is handed out twice, so there is no list to keep
        self._blank += partial
        for block in reversed(held):
            block.users -= 1
            if block.users:
                continue
            if block.digest is None:
                self._blank += 1
            else:
                self._idle[block] = None


def chained_hashes(parent, data, width):
    """Hashes of the full blocks in `data`, `width` bytes each, each one chained to the last."""
    hashes = []
    for at in range(0, len(data) - width + 1, width):
        parent = sha256(parent + data[at : at + width]).digest()
        hashes.append(parent)
    return hashes
