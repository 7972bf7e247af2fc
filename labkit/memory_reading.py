"""Systems that work when a question comes: full context, RAG and MemGPT-style paging (L14, sections 2 and 3.3)."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from labkit import checks
from labkit.conversation_world import MOST, N_KEYS
from labkit.memory_protocol import FACT_TOKENS, Answers, Memory, answered, top


@dataclass(frozen=True)
class FullContext:
    """Read the newest whole messages that fit into the window.

    A message is overlooked with probability 0.54 (alpha 4 x (1 - x))^1.3 min(1, length / 26,000), where x is the place of
    its middle as a share of the length read: the middle of a long context suffers most. alpha = 0 is a perfect reader.
    """

    window: int = 64_000  # tokens
    alpha: float = 0.0  # how easily the middle is overlooked; an assumption, not a measurement
    label = "full context"

    def __post_init__(self):
        checks.whole("FullContext.window", self.window, 1, MOST)
        checks.number("FullContext.alpha", self.alpha, 0)

    def build(self, conversation):
        """The memory of one conversation."""
        return FullContextMemory(self, conversation)


class FullContextMemory(Memory):
    """All messages from turn `first` on; nothing is done while writing."""

    def __init__(self, system, conversation):
        super().__init__(system, conversation)
        self._ends = np.cumsum(conversation.tokens)
        total = self._ends[-1]
        self.first = int(np.searchsorted(self._ends, total - system.window)) + 1 if total > system.window else 0
        self.length = self.prefix_tokens = int(total - (self._ends[self.first - 1] if self.first else 0))

    def overlook_probability(self):
        """Probability that the message of each statement is overlooked, shape (statements,)."""
        turn = self.conversation.statement_turn
        middle = self._ends[turn] - self.conversation.tokens[turn] / 2 - (self._ends[-1] - self.length)
        x = np.clip(middle / max(self.length, 1), 0, 1)
        return np.minimum(0.54 * (self.system.alpha * 4 * x * (1 - x)) ** 1.3 * min(1, self.length / 26_000), 1)

    def answers(self):
        world = self.conversation
        read = (world.statement_turn >= self.first) & (world.draws.overlook >= self.overlook_probability())
        count = len(world.question_kind)
        return Answers(answered(world, read), read, np.full(count, self.length), np.ones(count, int))

    def _messages_read(self, question):
        world = self.conversation
        overlooked = world.statement_turn[world.draws.overlook[question] < self.overlook_probability()]
        return np.setdiff1d(np.arange(self.first, world.turns), overlooked)


@dataclass(frozen=True)
class Rag:
    """Cut the dialogue into chunks and read the k most similar to the question.

    A chunk takes whole messages until it has at least `chunk` tokens (the last may be shorter); its embedding is the
    normalised mean of theirs. One search a question, for two-hop questions too.
    """

    chunk: int = 512  # tokens; demo 1 of L14 section 3.3 reads 4 chunks of 512
    k: int = 4
    label = "RAG"

    def __post_init__(self):
        checks.whole("Rag.chunk", self.chunk, 1, MOST)
        checks.whole("Rag.k", self.k, 1, MOST)

    def build(self, conversation):
        """The memory of one conversation."""
        return RagMemory(self, conversation)


def chunk_starts(tokens, chunk):
    """First message of each chunk, when whole messages are taken until a chunk has at least `chunk` tokens."""
    ends = np.cumsum(tokens).tolist()
    starts = [0]
    while True:
        before = ends[starts[-1] - 1] if starts[-1] else 0
        following = bisect_left(ends, before + chunk) + 1
        if following >= len(ends):
            return np.array(starts)
        starts.append(following)


class RagMemory(Memory):
    """An index over chunks; embedding them costs no call of the model."""

    def __init__(self, system, conversation):
        super().__init__(system, conversation)
        self.starts = chunk_starts(conversation.tokens, system.chunk)
        self.chunk_tokens = np.add.reduceat(conversation.tokens, self.starts)
        sums = np.add.reduceat(conversation.embeddings, self.starts)
        self._chunk_length = np.sqrt(np.einsum("ij,ij->i", sums, sums))

    def _chunks_read(self):
        # The dot product with a chunk's mean is the sum of those with its messages, which the conversation knows.
        similarity = np.add.reduceat(self.conversation.question_message_similarity, self.starts, axis=1)
        return top(similarity / self._chunk_length, self.system.k)

    def _chunk_of(self, turns):
        return np.searchsorted(self.starts, turns, side="right") - 1

    def answers(self):
        world, chosen = self.conversation, self._chunks_read()
        read = chosen[:, self._chunk_of(world.statement_turn)]
        return Answers(answered(world, read), read, chosen @ self.chunk_tokens, np.ones(len(chosen), int))

    def _messages_read(self, question):
        turns = np.arange(self.conversation.turns)
        return turns[self._chunks_read()[question][self._chunk_of(turns)]]


@dataclass(frozen=True)
class MemGptStyle:
    """A queue of recent messages, a small working context, and search in what was evicted (L14, section 2).

    When the queue overflows, one consolidation call saves each evicted statement with probability `save`, a call each; a
    new value replaces the old one of its key, and the least recently written fact leaves a full working context. A
    question is first put to working context + queue, then to a page of search results if that does not answer it.
    """

    queue: int = 6_000  # tokens; an 8k window less instructions, working context and summary
    flush: float = 0.5  # share of the queue that leaves when it overflows
    save: float = 0.7  # an evicted statement is worth saving, so the model thinks
    capacity: int | None = 30  # facts in working context; None = no limit
    page: int = 8  # messages a search returns
    label = "MemGPT style"

    def __post_init__(self):
        checks.whole("MemGptStyle.queue", self.queue, 1, MOST)
        checks.share("MemGptStyle.flush", self.flush)
        checks.share("MemGptStyle.save", self.save)
        if self.capacity is not None:
            checks.whole("MemGptStyle.capacity (or None for no limit)", self.capacity, 0, MOST)
        checks.whole("MemGptStyle.page", self.page, 1, MOST)

    def build(self, conversation):
        """The memory of one conversation."""
        return MemGptMemory(self, conversation)


class MemGptMemory(Memory):
    """`working` maps a key to the statement saved for it; messages from turn `first` on are in the queue.

    `prefix_tokens` is working context + queue: read once by every question.
    """

    def __init__(self, system, conversation):
        super().__init__(system, conversation)
        self.working, self.first, self.operations = OrderedDict(), 0, []
        ends = [0, *np.cumsum(conversation.tokens).tolist()]  # ends[t] = tokens before turn t
        while (overflow := bisect_right(ends, ends[self.first] + system.queue)) <= conversation.turns:
            # The message before `overflow` is the one that no longer fits.
            kept = system.queue * (1 - system.flush)
            following = min(bisect_left(ends, ends[overflow] - kept), overflow)
            self._consolidate(overflow - 1, self.first, following, ends[overflow] - ends[self.first])
            self.first = following
        self.prefix_tokens = ends[-1] - ends[self.first] + FACT_TOKENS * len(self.working)

    def _consolidate(self, turn, first, following, queue_tokens):
        """Evict messages first..following - 1 at `turn`; every call reads working context and queue."""
        world, working = self.conversation, self.working
        self.operations.append((turn, "EVICT", -1, -1, f"turns {first} to {following - 1}"))
        calls, prefill = 1, queue_tokens + FACT_TOKENS * len(working)
        low, high = np.searchsorted(world.statement_turn, (first, following))
        for statement in range(low, high):
            if world.draws.save[statement] >= self.system.save:
                continue
            key = int(world.statement_key[statement])
            replaced = working.pop(key, None)
            if replaced is not None:
                self._ids[statement], self.removed[replaced] = self._ids[replaced], turn
            self.operations.append((turn, "ADD" if replaced is None else "UPDATE", statement, statement, "saved to working context"))
            working[key], self.added[statement] = statement, turn  # last in the order of writing
            if self.system.capacity is not None and len(working) > self.system.capacity:
                _, dropped = working.popitem(last=False)
                self.removed[dropped] = turn
                self.operations.append((turn, "DELETE", dropped, dropped, "no room left"))
            calls, prefill = calls + 1, prefill + queue_tokens + FACT_TOKENS * len(working)
        self.write_calls, self.write_prefill = self.write_calls + calls, self.write_prefill + prefill

    def _pages(self, similarity):
        """Turns of the evicted messages nearest to each query, for similarities (queries, turns)."""
        if not self.first:
            return np.empty((len(similarity), 0), int)
        evicted = similarity[:, :self.first]
        if self.first <= self.system.page:
            return np.broadcast_to(np.arange(self.first), evicted.shape)
        return np.argpartition(-evicted, self.system.page - 1, axis=1)[:, :self.system.page]

    def _statements_of(self, turns):
        """Mark the statements that stand in the messages of these turns."""
        stated = np.zeros(self.conversation.turns, bool)
        stated[turns] = True
        return stated[self.conversation.statement_turn]

    def _view(self):
        """Mark the statements seen without a search."""
        seen = self.conversation.statement_turn >= self.first
        seen[list(self.working.values())] = True
        return seen

    def _ask(self):
        """For each question: right, statements read, and the pages of its searches."""
        world, view = self.conversation, self._view()
        pages_of_all = self._pages(world.question_message_similarity)
        in_view = view & (world.statement_key == world.question_key[:, None])
        newest = np.where(in_view, world.statement_index, -1).max(axis=1)
        oldest = np.where(in_view, world.statement_index, np.iinfo(int).max).min(axis=1)
        enough = [newest >= 0, newest > oldest]  # one value for "current", two different ones for "previous"
        for question, kind in enumerate(world.question_kind):
            if kind == 2:
                yield self._two_hop(question, view)
            else:
                read, pages = view, []
                if not enough[kind][question]:
                    pages = [pages_of_all[question]]
                    read = view | self._statements_of(pages[0])
                yield (world.needs[:, question] & read).any(axis=1).all(), read, pages

    def _two_hop(self, question, view):
        """Who has the role, then that person's fact; each is searched only if it is not in view."""
        world, pages, read = self.conversation, [], view
        role = world.statement_key == world.question_key[question]
        if not (read & role).any():
            pages.append(self._pages(world.role_search(question)[None])[0])
            read = read | self._statements_of(pages[-1])
        persons = np.flatnonzero(read & role)
        if not len(persons):
            return False, read, pages
        person = int(world.statement_version[persons[-1]])
        fact = world.statement_key == N_KEYS + 2 * person + world.question_relation[question]
        if not (read & fact).any():
            pages.append(self._pages(world.fact_search(question, person)[None])[0])
            read = read | self._statements_of(pages[-1])
        current = person == world.newest_version(world.question_key[question])
        return current and bool((read & fact).any()), read, pages

    def answers(self):
        right, read, pages = zip(*self._ask())
        tokens = [self.prefix_tokens + sum(int(self.conversation.tokens[page].sum()) for page in found) for found in pages]
        return Answers(np.array(right), np.array(read), np.array(tokens), np.array([1 + len(found) for found in pages]))

    def _memories_read(self, question):
        return np.array(list(self.working.values()), dtype=int)

    def _messages_read(self, question):
        pages = list(self._ask())[question][2]
        return np.unique(np.concatenate([*pages, np.arange(self.first, self.conversation.turns)]).astype(int))
