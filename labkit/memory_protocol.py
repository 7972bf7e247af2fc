"""The protocol of the memory systems: what a system builds from a conversation, how it answers, what it tells about itself.

Formula of the reader (L14, section 3.3): a question is answered when of each of its two groups of statements
(`Conversation.needs`) at least one was read; the newest value told counts as the current one. The reader is never
distracted by what else it reads, which flatters systems that read much.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from labkit.conversation import QUESTION_KINDS
from labkit.conversation_text import KEYS
from labkit.conversation_world import FIRST_ROLE

NEVER = np.iinfo(int).max
FACT_TOKENS = 20  # tokens of one memory or one line of working context


class Answers(NamedTuple):
    """What a memory gives to all questions of its conversation."""

    right: np.ndarray  # bool (questions,)
    read: np.ndarray  # bool (questions, statements): what was read, as message or as memory
    tokens: np.ndarray  # (questions,) tokens of memory read, the question itself left out
    calls: np.ndarray  # (questions,) calls of the model


def top(similarity, k):
    """Mark the k largest finite entries of each row: bool, the shape of `similarity` (rows, columns)."""
    marked = np.isfinite(similarity)
    if similarity.shape[1] > k:
        best = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
        chosen = np.zeros_like(marked)
        np.put_along_axis(chosen, best, True, axis=1)
        marked &= chosen
    return marked


def answered(conversation, read):
    """The ideal reader: right where each group of needed statements was met; bool (questions,)."""
    return (conversation.needs & read).any(axis=2).all(axis=0)


class Memory:
    """What a system has built from one conversation; the protocol of all six.

    Attributes
    ----------
    conversation : Conversation
    write_calls, write_prefill : int
        Calls of the model made while writing, and tokens their prompts hold (no prefix cache).
    extra_calls : int
        Further calls of the write path that are an assumption of ours, counted apart (mem0 graph only).
    added, removed : ndarray of int, shape (statements,)
        Turn at which the memory of a statement came and went (replaced, deleted or invalidated); NEVER if it did not.
    prefix_tokens : int
        Tokens at the head of the prompt that are the same for every question, so a prefix cache can keep them.
    """

    write_calls = 0
    write_prefill = 0
    extra_calls = 0
    prefix_tokens = 0
    operations = ()  # (turn, operation, memory concerned, statement told, note); a memory is named by its statement, -1 = none

    keeps_removed = False  # what is removed stays, marked as invalid

    def __init__(self, system, conversation):
        self.system, self.conversation = system, conversation
        count = len(conversation.statement_turn)
        self.added, self.removed = np.full(count, NEVER), np.full(count, NEVER)
        self._ids = np.arange(count)

    def answers(self):
        """Answers to all questions, as arrays."""
        raise NotImplementedError

    def answer(self, questions=None):
        """Answer questions.

        Parameters
        ----------
        questions : DataFrame or sequence of int, optional
            Rows of `conversation.questions`, or their numbers; all of them by default.

        Returns
        -------
        DataFrame
            A row a question: kind, right, tokens, calls, and outcome: "right", "stale" (something of the key was read,
            but not its newest value) or "missing".
        """
        right, read, tokens, calls = self.answers()
        world = self.conversation
        newest = (world.needs[0] & read).any(axis=1)
        of_key = (read & (world.statement_key == world.question_key[:, None])).any(axis=1)
        table = pd.DataFrame({
            "kind": np.array(QUESTION_KINDS)[world.question_kind], "right": right, "tokens": tokens, "calls": calls,
            "outcome": np.select([right, of_key & ~newest], ["right", "stale"], "missing"),
        })
        if questions is None:
            return table
        return table.loc[questions.index if isinstance(questions, pd.DataFrame) else list(questions)]

    def _memories_read(self, question):
        """Numbers of the statements that a question reads as memories."""
        return np.empty(0, int)

    def _messages_read(self, question):
        """Turns of the messages that a question reads."""
        return np.empty(0, int)

    def reading(self, question):
        """All that is read for one question, with the evidence marked.

        Returns
        -------
        DataFrame
            source ("memory" or "message"), memory (its id, -1 for a message), turn, text, tokens, evidence (does it state
            something that the answer needs?).
        """
        world = self.conversation
        needed = np.flatnonzero(world.needs[:, question].any(axis=0))
        memories, turns = np.asarray(self._memories_read(question)), np.asarray(self._messages_read(question))
        as_memory = pd.DataFrame({
            "source": "memory", "memory": self.memory_id(memories), "turn": world.statement_turn[memories],
            "text": world.statements.text.to_numpy()[memories], "tokens": FACT_TOKENS, "evidence": np.isin(memories, needed)})
        as_message = pd.DataFrame({
            "source": "message", "memory": -1, "turn": turns, "text": world.messages.text.to_numpy()[turns],
            "tokens": world.tokens[turns], "evidence": np.isin(turns, world.statement_turn[needed])})
        return pd.concat([table for table in (as_memory, as_message) if len(table)] or [as_memory], ignore_index=True)

    def memory_id(self, statements):
        """Ids of the memories made from statements: the number of the first statement that was stored under it."""
        return self._ids[np.asarray(statements, dtype=int)]

    @property
    def log(self):
        """Operations in order: turn, operation, memory (id of the memory concerned, -1 for none), text, note."""
        text = self.conversation.statements.text
        rows = [(turn, operation, -1 if memory < 0 else int(self.memory_id([memory])[0]), "" if told < 0 else text[told], note)
                for turn, operation, memory, told, note in self.operations]
        return pd.DataFrame(rows, columns=["turn", "operation", "memory", "text", "note"])

    def valid_at(self, turn=None):
        """Mark the memories that are valid after a turn (by default the last); bool (statements,)."""
        turn = self.conversation.turns - 1 if turn is None else turn
        return (self.added <= turn) & (self.removed > turn)

    def superseded_at(self, turn=None):
        """Mark the memories that were valid once and are not any more."""
        turn = self.conversation.turns - 1 if turn is None else turn
        return (self.added <= turn) & (self.removed <= turn)

    def store(self, turn=None):
        """The memories held after a turn: memory (id), turn (when it was said), key, value, text, valid."""
        held = self.valid_at(turn) | (self.superseded_at(turn) if self.keeps_removed else False)
        rows = np.flatnonzero(held)
        table = self.conversation.statements.iloc[rows]
        return pd.DataFrame({"memory": self.memory_id(rows), "turn": table.turn.to_numpy(), "key": table.key.to_numpy(),
                             "value": table.value.to_numpy(), "text": table.text.to_numpy(), "valid": self.valid_at(turn)[rows]})

    def graph(self, turn=None):
        """The memories held after a turn as a graph.

        Returns
        -------
        nodes : DataFrame
            node, kind ("user", "person" or "value").
        edges : DataFrame
            source, relation, target, valid, turn, memory; an edge a memory.
        """
        world, store = self.conversation, self.store(turn)
        user, roles = world.speakers[0], {key.name for key in KEYS[FIRST_ROLE:]}
        named = store.key.str.split(": ")
        edges = pd.DataFrame({
            "source": [name[0] if len(name) == 2 else user for name in named], "relation": [name[-1] for name in named],
            "target": store.value, "valid": store.valid, "turn": store.turn, "memory": store.memory})
        people = set(edges.target[store.key.isin(roles)]) | set(edges.source) - {user}
        names = list(dict.fromkeys([user, *edges.source, *edges.target]))
        kinds = ["user" if name == user else "person" if name in people else "value" for name in names]
        return pd.DataFrame({"node": names, "kind": kinds}), edges
