"""The store of mem0, step by step: what was said, what the model did with it, what is held, what answers a question.

A short conversation of 200 messages (or a scripted one), so that every operation can be followed by eye. The question is
put after each message anew: `needed_at` says what would answer it then, `Store.read_at` what is found.
"""

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.conversation import QUESTION_KINDS, Conversation
from labkit.conversation_text import KEYS, RELATIONS
from labkit.conversation_world import MOST, N_KEYS
from labkit.memory_systems import AddOnly, Mem0, Mem0Graph

LONGEST = 200  # messages of a story
PIZZA = [
    ("dish", "pizza", "I love pizza."), ("city", "Lisbon", "And you live in Lisbon now, right?"), ("dish", "pizza", "Pizza again! You know me."),
    ("dish", "anything but pizza", "So you hate pizza now? Anything but pizza, then."), ("city", "Ghent", "We have moved to Ghent."),
]
STORIES = {
    "a life in 200 messages": lambda: Conversation.generate(3, LONGEST),
    "another life": lambda: Conversation.generate(4, LONGEST),
    "love, then hate (5 messages)": lambda: Conversation.scripted(PIZZA),
}
SYSTEMS = {
    "mem0 (DELETE, then ADD)": Mem0,
    "mem0 (UPDATE in place)": lambda **errors: Mem0(update_in_place=True, **errors),
    "mem0 graph (INVALIDATE)": Mem0Graph,
    "add-only": lambda recall=1.0, **errors: AddOnly(recall=recall),  # no update call, so nothing else can go wrong
}
PERFECT = {"recall": 1.0, "known_mistake": 0.0, "conflict_missed": 0.0}
FAILURES = {  # seen in real systems; here they happen each time they can
    "none": {},
    "a contradiction only deletes": {"delete_only": 1.0},
    "said twice deletes": {"repeat_deletes": 1.0},
    "an update names an unknown id": {"unknown_id": 1.0},
}
ASKS = {
    "favourite dish now": ("current", "dish", None), "favourite dish before": ("previous", "dish", None),
    "city now": ("current", "city", None), "city before": ("previous", "city", None), "partner now": ("current", "partner", None),
    "home town of the partner": ("two-hop", "partner", "home town"), "job of the boss": ("two-hop", "boss", "job"),
}


@dataclass(frozen=True)
class Step:
    """A conversation and its memory after a message.

    dialogue : DataFrame of the messages so far: turn, speaker, text, state ("" for no fact, "stated", "not extracted"), evidence.
    log : DataFrame of the operations so far: turn, operation, key, value, note.
    store : DataFrame of what is held: turn, key, value, text, valid, read (found for the question), evidence.
    nodes, edges : the same as a graph (`Memory.graph`), edges with read and evidence; None where the system has no graph.
    question, answer : text; "" if the conversation has not spoken of it yet.  right : is it answered, asked now?
    unknown_ids, write_calls : counts so far.
    """

    system: str
    turn: int
    dialogue: pd.DataFrame
    log: pd.DataFrame
    store: pd.DataFrame
    nodes: pd.DataFrame | None
    edges: pd.DataFrame | None
    question: str
    answer: str
    right: bool
    unknown_ids: int
    write_calls: int

    def __repr__(self):
        asked = f"{self.question!r} is {'answered' if self.right else 'not answered'}" if self.question else "nothing to ask yet"
        return f"Step({self.system}, after message {self.turn + 1}: {len(self.store)} memories, {self.write_calls} calls to write; {asked})"


@cache
def story(name):
    """A conversation of `STORIES`, made once."""
    return STORIES[name]()


@lru_cache(maxsize=64)
def _memory(name, system, failure, errors):
    rates = ({} if errors else PERFECT) | FAILURES[failure]
    return SYSTEMS[system](**rates).build(story(name))


def find_question(world, ask):
    """Number of the question that `ask` (a key of `ASKS`) means in a conversation; None if it is not asked there."""
    kind, key, relation = ASKS[ask]
    wanted = (world.question_kind == QUESTION_KINDS.index(kind)) & (world.question_key == [k.name for k in KEYS].index(key))
    if relation:
        wanted &= world.question_relation == [r.name for r in RELATIONS].index(relation)
    found = np.flatnonzero(wanted)
    return int(found[0]) if len(found) else None


def needed_at(world, question, turn):
    """`Conversation.needs` of one question if it is asked after a turn: bool (2, statements).

    Each group must be met by one statement: the newest value, and beside it the value before (previous) or the fact of the
    newest person (two-hop).  Nothing is needed, and nothing answers, before the key was spoken of.
    """
    told = world.statement_turn <= turn
    of_key = told & (world.statement_key == world.question_key[question])
    needs = np.zeros((2, len(told)), bool)
    if of_key.any():
        last = world.statement_index[of_key].max()
        newest = of_key & (world.statement_index == last)
        fact = N_KEYS + 2 * world.statement_version[newest][0] + world.question_relation[question]
        needs[0] = newest
        needs[1] = (newest, of_key & (world.statement_index == last - 1), told & (world.statement_key == fact))[world.question_kind[question]]
    return needs


def step_through(story="a life in 200 messages", system="mem0 graph (INVALIDATE)", failure="none", messages=165, ask="home town of the partner",
                 errors=False) -> Step:
    """The dialogue, the operations, the store and a question after a number of messages.

    Parameters
    ----------
    story, system, failure, ask : keys of `STORIES`, `SYSTEMS`, `FAILURES`, `ASKS`.
    messages : how many have been said; a shorter story stands still at its end.
    errors : False = the model that writes makes none but the chosen failure; True = its usual error rates.

    Raises
    ------
    ValueError
        For an unknown name, or fewer than one message.
    """
    for name, value, allowed in (("story", story, STORIES), ("system", system, SYSTEMS), ("failure", failure, FAILURES), ("ask", ask, ASKS)):
        if value not in allowed:
            raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(allowed)}")
    checks.whole("messages", messages, 1, MOST)
    memory = _memory(story, system, failure, errors)
    world, turn = memory.conversation, min(messages, memory.conversation.turns) - 1
    question = find_question(world, ask)
    needs, read = np.zeros((2, len(world.statement_turn)), bool), np.zeros(len(world.statement_turn), bool)
    if question is not None:
        needs, read = needed_at(world, question, turn), memory.read_at(turn)[question]
    evidence = needs.any(axis=0)
    held = np.flatnonzero(memory.valid_at(turn) | (memory.superseded_at(turn) if memory.keeps_removed else False))
    store = memory.store(turn).assign(read=read[held], evidence=evidence[held])
    nodes, edges = memory.graph(turn) if memory.keeps_removed else (None, None)
    asked = bool(needs.any(axis=1).all())
    log = _log(memory, turn)
    return Step(
        system=system, turn=turn, dialogue=_dialogue(memory, turn, evidence), log=log, store=store, nodes=nodes,
        edges=None if edges is None else edges.assign(read=store.read, evidence=store.evidence),
        question=world.questions.text[question] if asked else "",
        answer=world.statements.value[np.flatnonzero(needs[1])[-1]] if asked else "",
        right=asked and bool((needs & read).any(axis=1).all()),
        unknown_ids=int((log.note == "unknown id").sum()), write_calls=_write_calls(memory, turn))


def _dialogue(memory, turn, evidence):
    world = memory.conversation
    state = np.full(world.turns, "", dtype=object)
    state[world.statement_turn] = np.where(world.draws.extract < memory.system.recall, "stated", "not extracted")
    said = world.messages.iloc[:turn + 1]
    return said[["turn", "speaker", "text"]].assign(state=state[:turn + 1], evidence=np.isin(said.turn, world.statement_turn[evidence]))


def _log(memory, turn):
    key, value = (memory.conversation.statements[column].to_numpy() for column in ("key", "value"))
    rows = [(at, operation, key[told], value[told], note) for at, operation, _, told, note in memory.operations if at <= turn]
    return pd.DataFrame(rows, columns=["turn", "operation", "key", "value", "note"])


def _write_calls(memory, turn):
    """One call for each pair of messages, and one for each extracted statement unless the system only adds."""
    extracted = memory.conversation.statement_turn[memory.conversation.draws.extract < memory.system.recall] <= turn
    return -(-(turn + 1) // 2) + (0 if isinstance(memory.system, AddOnly) else int(extracted.sum()))
