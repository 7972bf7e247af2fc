"""A life that is told, and a request to forget one fact of it: what `labkit.forgetting` and `labkit.poisoning` work on."""

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from labkit import checks
from labkit.conversation import Conversation
from labkit.conversation_text import KEYS
from labkit.conversation_world import fresh, unit

SEED, TURNS = 11, 200  # a life whose town changes twice: Taipei, Ghent, and Basel after the request
NOW = 150  # messages after which the user says: forget it
FACTS = {"where the user lives": "city", "what the user is allergic to": "allergy"}
ASKINGS = 32  # reworded questions
PERFECT = {"recall": 1.0, "known_mistake": 0.0, "conflict_missed": 0.0}  # the model that writes makes no mistake here
CARTRIDGE = ("leave it", "cut out the slot", "train again without it")


@dataclass(frozen=True)
class Request:
    """What is to be forgotten, and how thoroughly.

    fact : a key of FACTS.  entries : each memory's own delete (mem0 DELETE, graph INVALIDATE, MemGPT core_memory_replace,
    playbook DELETE).  old_versions : what was superseded, the log of operations, and every other entry that names the value.
    raw : the messages themselves: transcript, queue, recall storage.  rebuilt : what was made from them: summary, vectors,
    KV in the prefix cache.  cartridge : one of CARTRIDGE.
    """

    fact: str = "where the user lives"
    entries: bool = True
    old_versions: bool = False
    raw: bool = False
    rebuilt: bool = False
    cartridge: str = "leave it"

    def __post_init__(self):
        for name, value, allowed in (("fact", self.fact, FACTS), ("cartridge", self.cartridge, CARTRIDGE)):
            if value not in tuple(allowed):
                raise ValueError(f"Request: {name} must be one of {', '.join(allowed)}; got {value!r}")
        for name in ("entries", "old_versions", "raw", "rebuilt"):
            checks.flag(f"Request: {name}", getattr(self, name))


@dataclass(frozen=True, eq=False)
class Life:
    """The conversation, the statements to forget, their values, and reworded questions about them.

    targets : bool (statements,).  values : words.  questions : (ASKINGS, dimensions), half of them for the value now,
    half for the one before, where there was one.  phrases : texts to search with.
    """

    world: Conversation
    targets: np.ndarray
    values: tuple
    questions: np.ndarray
    phrases: tuple

    def names(self, text):
        """Does a text name a value that is to be forgotten?"""
        return any(re.search(rf"\b{re.escape(value)}\b", text) for value in self.values)


PHRASES = {
    "city": ("Where do I live?", "Which town is my home?", "Where did I live before?", "my address: lives in"),
    "allergy": ("What am I allergic to?", "allergic", "Which food must I avoid, an allergy?", "a bad reaction to"),
}


@cache
def life(fact):
    """The life of Felix, and what a request about `fact` (a key of FACTS) concerns."""
    world, name = Conversation.generate(SEED, TURNS), FACTS[fact]
    key = [k.name for k in KEYS].index(name)
    targets = (world.statement_key == key) & (world.statement_turn < NOW)
    asked = np.flatnonzero((world.question_key == key) & (world.question_kind < 2))
    base = world.question_embeddings[np.resize(asked, ASKINGS)]
    noise = fresh(np.random.default_rng([SEED, 7]), ASKINGS, base.shape[1])
    questions = unit(base + np.float32(world.settings.question_noise) * noise)
    values = tuple(dict.fromkeys(world.statements.value[targets]))
    return Life(world, targets, values, questions, PHRASES[name])
