"""Systems that work when something is said: mem0, its graph version, and add-only.

Every two messages a model extracts facts; each fact is compared with the most similar memories and one operation is
chosen: ADD, UPDATE, DELETE or NOOP (mem0 paper, section 2; L14, section 3.1). Here the model is a rule with error rates,
and its luck (`Conversation.draws`) is drawn with the world. What goes wrong while writing can't be mended while reading.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from labkit import checks
from labkit.conversation_world import FIRST_ROLE, MOST, N_KEYS
from labkit.memory_protocol import FACT_TOKENS, Answers, Memory, answered, top

EXTRACTION_PROMPT = 1_000 + 430 + 85  # tokens: instructions, the last 10 messages, the new pair (L14, exercise 2)
UPDATE_PROMPT = 500 + 200  # tokens: instructions, the memories to compare with
GRAPH_CALLS_PER_PAIR = 3  # assumption: entities, relations, conflicts, a call each


@dataclass(frozen=True)
class ExtractionSettings:
    """How often the model that writes is wrong, and how much it sees."""

    recall: float = 0.90  # a statement is extracted
    known_mistake: float = 0.15  # a changed value is taken for a known one and dropped
    conflict_missed: float = 0.01  # the old value is not noticed, both stay
    s: int = 10  # similar memories shown to the update call
    k: int = 10  # memories read for a question
    delete_only: float = 0.0  # failure seen in use: a contradiction deletes the old value and adds nothing
    repeat_deletes: float = 0.0  # failure seen in use: a fact said twice deletes its memory
    unknown_id: float = 0.0  # failure seen in use: the update names a memory that does not exist, and is lost

    def __post_init__(self):
        for name in ("recall", "known_mistake", "conflict_missed", "delete_only", "repeat_deletes", "unknown_id"):
            checks.share(f"{type(self).__name__}.{name}", getattr(self, name))
        checks.whole(f"{type(self).__name__}.s", self.s, 1, MOST)
        checks.whole(f"{type(self).__name__}.k", self.k, 1, MOST)


class Store(Memory):
    """Memories made from statements: the write path of mem0, and what it leaves behind.

    Attributes
    ----------
    unknown_ids : int
        Operations that named a memory which does not exist: counted, not fatal.
    """

    removal = "DELETE"

    def __init__(self, system, conversation):
        super().__init__(system, conversation)
        self.unknown_ids, self.operations = 0, []
        extracted = np.flatnonzero(conversation.draws.extract < system.recall).tolist()
        self._write(extracted)
        pairs = -(-conversation.turns // 2)
        self.write_calls = pairs + self._update_calls(extracted)
        self.write_prefill = pairs * EXTRACTION_PROMPT + self._update_calls(extracted) * UPDATE_PROMPT

    def _update_calls(self, extracted):
        return len(extracted)

    def _write(self, extracted):
        """One update call for each extracted statement, in order."""
        world, system, draws = self.conversation, self.system, self.conversation.draws
        keys, values = world.statement_key.tolist(), world.statement_index.tolist()
        valid = [False] * len(keys)
        for new in extracted:
            near = islice((old for old in world.memory_neighbours[new] if valid[old]), system.s)
            same_key = [old for old in near if keys[old] == keys[new]]
            repeats = [old for old in same_key if values[old] == values[new]]
            if repeats:
                if draws.odd_operation[new] < system.repeat_deletes:
                    self._remove(new, repeats, valid, "said twice")
                else:
                    self._log("NOOP", new, repeats[0], "known")
            elif not same_key:
                self._add(new, valid)
            elif draws.mistake[new] < system.known_mistake:
                self._log("NOOP", new, same_key[0], "wrongly taken for known")
            elif draws.missed[new] < system.conflict_missed:
                self._add(new, valid, "conflict missed")
            else:
                self._replace(new, same_key, valid)

    def _replace(self, new, old, valid):
        """A value that changed: the old memories of its key go, the new one comes, unless the model only deletes."""
        forgotten = self._only_deletes(new)
        self._remove(new, old, valid, "only deleted" if forgotten else "contradicted")
        if not forgotten:
            self._add(new, valid)

    def _only_deletes(self, new):
        return self.conversation.draws.odd_operation[new] < self.system.delete_only

    def _names_unknown(self, new):
        """Does the model name a memory that does not exist? Counted, the operation is skipped."""
        unknown = bool(self.conversation.draws.unknown_id[new] < self.system.unknown_id)
        if unknown:
            self.unknown_ids += 1
            self._log("NOOP", new, -1, "unknown id")
        return unknown

    def _remove(self, new, old, valid, note):
        if self._names_unknown(new):
            return
        for statement in old:
            valid[statement] = False
            self.removed[statement] = self.conversation.statement_turn[new]
            self._log(self.removal, new, statement, note, told=statement)

    def _add(self, new, valid, note=""):
        valid[new] = True
        self.added[new] = self.conversation.statement_turn[new]
        self._log("ADD", new, new, note)

    def _log(self, operation, new, memory, note, told=None):
        """`new` is the statement that causes it; its text is shown unless another one is `told`."""
        self.operations.append((int(self.conversation.statement_turn[new]), operation, memory, new if told is None else told, note))

    def _top(self, candidates):
        """Mark the k most similar of the candidate memories; bool (questions, statements)."""
        return top(np.where(candidates, self.conversation.question_memory_similarity, -np.inf), self.system.k)

    def read_at(self, turn=None):
        """Mark the memories that each question reads if it is asked after a turn (by default the last); bool (questions, statements)."""
        return self._top(self.valid_at(turn))

    def answers(self):
        read = self.read_at()
        return Answers(answered(self.conversation, read), read, FACT_TOKENS * read.sum(axis=1), np.ones(len(read), int))

    def _memories_read(self, question):
        return np.flatnonzero(self.read_at()[question])


@dataclass(frozen=True)
class Mem0(ExtractionSettings):
    """mem0: extract, then ADD, UPDATE, DELETE or NOOP; a value that changed is deleted.

    One extraction call a pair of messages, one update call an extracted statement. With the same key and value among the s
    most similar valid memories: NOOP. With another value: mostly DELETE of all of that key + ADD. Else ADD.
    """

    update_in_place: bool = False  # write a change as UPDATE, which keeps the memory's id, instead of DELETE + ADD
    label = "mem0"

    def __post_init__(self):
        super().__post_init__()
        checks.flag("Mem0.update_in_place", self.update_in_place)

    def build(self, conversation):
        """The memory of one conversation."""
        return Mem0Memory(self, conversation)


class Mem0Memory(Store):
    """The store of mem0."""

    def _replace(self, new, old, valid):
        if not self.system.update_in_place or self._only_deletes(new):
            super()._replace(new, old, valid)
        elif not self._names_unknown(new):
            self._update(new, old, valid)

    def _update(self, new, old, valid):
        """Rewrite the most similar old memory, delete the others of its key."""
        turn = self.conversation.statement_turn[new]
        self._ids[new] = self._ids[old[0]]
        valid[new], self.added[new] = True, turn
        self._log("UPDATE", new, new, "contradicted")
        for number, statement in enumerate(old):
            valid[statement], self.removed[statement] = False, turn
            if number:
                self._log("DELETE", new, statement, "contradicted", told=statement)


@dataclass(frozen=True)
class Mem0Graph(ExtractionSettings):
    """mem0's graph version: what is contradicted becomes invalid, and stays; people lead to their facts.

    Reads the k most similar valid memories; for each of the `best` most similar also the last `history` invalid ones of its
    key; with `graph`, each memory "role is PERSON" among the k brings that person's valid facts.
    """

    graph: bool = True
    best: int = 3
    history: int = 2
    old_versions_compete: bool = False  # valid and invalid share the k places, and no history is added
    label = "mem0 graph"

    def __post_init__(self):
        super().__post_init__()
        checks.whole("Mem0Graph.best", self.best, 0, MOST)
        checks.whole("Mem0Graph.history", self.history, 0, MOST)
        checks.flag("Mem0Graph.graph", self.graph)
        checks.flag("Mem0Graph.old_versions_compete", self.old_versions_compete)

    def build(self, conversation):
        """The memory of one conversation."""
        return Mem0GraphMemory(self, conversation)


class Mem0GraphMemory(Store):
    """The store of mem0's graph version; invalid memories stay."""

    removal = "INVALIDATE"
    keeps_removed = True

    def __init__(self, system, conversation):
        super().__init__(system, conversation)
        self.extra_calls = GRAPH_CALLS_PER_PAIR * -(-conversation.turns // 2)

    def read_at(self, turn=None):
        world, system, valid = self.conversation, self.system, self.valid_at(turn)
        superseded = self.superseded_at(turn)
        if system.old_versions_compete:
            read = self._top(valid | superseded)
        else:
            read = self._top(valid)
            if system.best and system.history:
                best = top(np.where(read, world.question_memory_similarity, -np.inf), system.best)
                read = read | _follow(best, self._history(superseded))
        if system.graph:
            read = read | _follow(read & valid, self._person_facts(valid))
        return read

    def _history(self, superseded):
        """Links (statements, statements) from each memory to the last invalid ones of its key."""
        keys, old = self.conversation.statement_key, np.flatnonzero(superseded)
        links = np.zeros((len(keys), len(keys)), np.float32)
        for key in np.unique(keys[old]):
            links[np.ix_(keys == key, old[keys[old] == key][-self.system.history:])] = 1
        return links

    def _person_facts(self, valid):
        """Links (statements, statements) from each "role is PERSON" to that person's valid facts."""
        world = self.conversation
        is_role = (world.statement_key >= FIRST_ROLE) & (world.statement_key < N_KEYS)
        is_fact = (world.statement_key >= N_KEYS) & valid
        same_person = world.statement_version[:, None] == world.statement_version
        return (is_role[:, None] & is_fact & same_person).astype(np.float32)


def _follow(chosen, links):
    """Mark what the chosen memories lead to: bool (questions, statements)."""
    return chosen.astype(np.float32) @ links > 0


@dataclass(frozen=True)
class AddOnly:
    """Every extracted statement is added, repeats too; the reader sorts old from new. What mem0's code became in 2026."""

    recall: float = 0.90
    k: int = 10
    drop_repeats: bool = False  # a statement is dropped if its value is among the s most similar memories
    s: int = 10
    label = "add-only"

    def __post_init__(self):
        checks.share("AddOnly.recall", self.recall)
        checks.whole("AddOnly.k", self.k, 1, MOST)
        checks.whole("AddOnly.s", self.s, 1, MOST)
        checks.flag("AddOnly.drop_repeats", self.drop_repeats)

    def build(self, conversation):
        """The memory of one conversation."""
        return AddOnlyMemory(self, conversation)


class AddOnlyMemory(Store):
    """The store of add-only: no update call, nothing is ever removed."""

    def _update_calls(self, extracted):
        return 0

    def _write(self, extracted):
        world = self.conversation
        same = (world.statement_key[:, None] == world.statement_key) & (world.statement_index[:, None] == world.statement_index)
        valid = [False] * len(same)
        for new in extracted:
            near = islice((old for old in world.memory_neighbours[new] if valid[old]), self.system.s)
            known = next((old for old in near if same[new, old]), None) if self.system.drop_repeats else None
            if known is None:
                self._add(new, valid)
            else:
                self._log("NOOP", new, known, "known")
