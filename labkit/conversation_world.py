"""What happens in a toy conversation and when: settings, the values a key has over time, the messages that tell them.

Times are in 0..1; a key is one thing worth remembering (see :mod:`labkit.conversation_text`). Everything random about who
says what and when is drawn here; vectors, questions and text are made from it in :mod:`labkit.conversation`.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from labkit import checks
from labkit.conversation_text import CHANGING_KEYS, CONSTANT_KEYS, KEYS, RELATIONS, ROLE_KEYS

N_KEYS = len(KEYS)
FIRST_ROLE = N_KEYS - len(ROLE_KEYS)
MOST = 10**9  # of any count
MAX_TURNS = 100_000  # 100 MB of embeddings
MIN_TURNS = 200  # a shorter conversation has no room for its facts
STATEMENT, PERSON_FACT, TOPIC, PERSON, SMALL_TALK = range(5)  # kinds of message


@dataclass(frozen=True)
class WorldSettings:
    """How much happens in a conversation and how noisy its embeddings are.

    Rates are for 600 turns and grow with the length L = turns / 600 where the notes say so. They were chosen so that
    the systems of :mod:`labkit.memory_systems` land on the figures of L14, section 3.3.
    """

    changes: float = 1.8  # changes of a changing attribute (Poisson mean x L, at least one)
    role_changes: float = 1.1  # times another person takes a role (Poisson mean x L)
    restatements: float = 0.65  # further statements of a value that can change (Poisson mean)
    topic_messages: float = 9.0  # messages a key that speak of its topic without an answer (mean x L), in bursts of two
    burst_turns: float = 30.0  # turns over which a burst spreads
    person_messages: float = 4.0  # messages that mention a person and tell nothing (Poisson mean)
    first_by: float = 0.15  # a value that can change is first told within this share of 600 turns
    introduction_turns: float = 1.5  # a new person's home town and job follow within so many turns
    value_weight: float = 0.8  # weight of the value next to its topic
    relation_weight: float = 0.38  # weight of "home town" or "job" next to the person
    message_noise: float = 0.8  # length of the noise in a message's embedding; a raw message is chatty
    memory_noise: float = 0.4  # the same for an extracted memory: shorter, so purer
    question_noise: float = 0.3  # the same for a question and a follow-up search
    tokens_min: int = 10  # tokens of a message, uniform, both ends included: mean 43
    tokens_max: int = 76
    dimensions: int = 256  # of the embeddings

    def __post_init__(self):
        for field in fields(self)[:-3]:
            checks.number(f"WorldSettings.{field.name}", getattr(self, field.name), 0)
        checks.number("WorldSettings.first_by", self.first_by, 0, MIN_TURNS / 600)
        checks.whole("WorldSettings.tokens_min", self.tokens_min, 1, MOST)
        checks.whole("WorldSettings.tokens_max", self.tokens_max, self.tokens_min, MOST)
        checks.whole("WorldSettings.dimensions", self.dimensions, 2, MOST)


def unit(vectors):
    """Vectors scaled to length 1 along the last axis; a zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(length, np.finfo(np.float32).tiny)


def fresh(rng, count, dimensions):
    """`count` random directions: normalised normals, shape (count, dimensions)."""
    return unit(rng.standard_normal((count, dimensions), dtype=np.float32))


@dataclass(frozen=True)
class Versions:
    """Every value a key ever has; arrays of one length, in order of key and time."""

    key: np.ndarray  # 0..19
    index: np.ndarray  # 0 for a key's first value
    start: np.ndarray  # times in 0..1
    end: np.ndarray

    @cached_property
    def last_index(self):
        """Index of the newest value of each key, shape (20,); -1 for a key never spoken of."""
        last = np.full(N_KEYS, -1)
        np.maximum.at(last, self.key, self.index)
        return last


@dataclass(frozen=True)
class Draws:
    """Uniform numbers that decide what a memory system gets wrong; drawn once, with the world.

    A policy compares them with its probabilities, so a slider changes the policy and never the luck.
    """

    extract: np.ndarray  # a statement each: is it extracted?
    mistake: np.ndarray  # is a new value taken for a known one?
    missed: np.ndarray  # is a conflict not noticed?
    odd_operation: np.ndarray  # does the model delete where it should not?
    unknown_id: np.ndarray  # does the model name a memory that does not exist?
    save: np.ndarray  # is an evicted statement saved to working context?
    overlook: np.ndarray  # (questions, statements): is a message overlooked in a long context?


def draw_versions(rng, length, settings):
    """Versions of the 20 keys; `length` is turns / 600."""
    rows = []
    for key in range(N_KEYS):
        if key < len(CONSTANT_KEYS):
            starts = rng.random(1)
        else:
            role = key >= len(CONSTANT_KEYS) + len(CHANGING_KEYS)
            changes = rng.poisson(settings.role_changes * length) if role else max(1, rng.poisson(settings.changes * length))
            first = rng.random() * settings.first_by / length
            starts = np.append(first, first + (1 - first) * np.sort(rng.random(changes)))
        ends = np.append(starts[1:], 1.0)
        rows += [(key, index, start, end) for index, (start, end) in enumerate(zip(starts, ends))]
    return Versions(*(np.array(column) for column in zip(*rows)))


def draw_events(rng, versions, turns, settings):
    """Messages in no order: (time, kind, subject, relation); the subject is a version, or the key of a topic message."""
    events = []
    for version, (key, start, end) in enumerate(zip(versions.key, versions.start, versions.end)):
        again = 0 if key < len(CONSTANT_KEYS) else rng.poisson(settings.restatements)
        events += [(time, STATEMENT, version, 0) for time in np.append(start, rng.uniform(start, end, again))]
        if key >= FIRST_ROLE:
            delays = rng.random(len(RELATIONS)) * settings.introduction_turns / turns
            events += [(start + delay, PERSON_FACT, version, relation) for relation, delay in enumerate(delays)]
            events += [(time, PERSON, version, 0) for time in rng.uniform(start, end, rng.poisson(settings.person_messages))]
    for key in range(N_KEYS):
        for burst in rng.random(rng.poisson(settings.topic_messages * turns / 600 / 2)):
            events += [(time, TOPIC, key, 0) for time in burst + rng.random(2) * settings.burst_turns / turns]
    if len(events) > turns:
        raise ValueError(f"turns = {turns} is too few for the {len(events)} messages that these WorldSettings make; use more turns or lower rates")
    return events + [(time, SMALL_TALK, -1, 0) for time in rng.random(turns - len(events))]
