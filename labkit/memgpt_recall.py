"""What an agent still knows after many sessions: truncation, summary, MemGPT (L11 section 2.5).

A user mentions facts in passing and changes some of them later; at the end we ask for attributes
mentioned at any time, and only the latest value is right. The window is a queue: as soon as it is
full, its older half is flushed. What a system has done about a fact *before* that decides.

The luck is drawn once a world: each probability below is compared with a uniform draw that stays
as it is while the settings change. So a slider shows the policy, never another roll of the dice.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import checks


@dataclass(frozen=True)
class RecallSettings:
    """Policy first (what the systems do), then the world (what users say and ask)."""

    window: int = 40  # messages; the 40th flushes the older 20
    core: int = 8  # facts in core memory (working context)
    archive: float = 0.60  # chance that a fact is archived on arrival
    archive_warned: float = 0.95  # ... under memory pressure
    warn: float = 0.70  # memory pressure from this share of the window on (28 messages)
    keep: float = 0.85  # chance that a flush keeps a fact already in the summary
    find: float = 0.90  # chance that an archive search finds the attribute
    newest: float = 0.90  # chance to pick the newest of several archived versions
    recall: float = 0.0  # chance that recall storage answers; 0 = there is none (0.70 in L11 ex. 8a)
    attributes: int = 30  # attributes a user may mention
    update: float = 0.25  # chance that a fact changes an attribute mentioned before
    messages: int = 12  # messages a session
    facts: int = 2  # of them with a fact
    questions: int = 6  # attributes asked for at the end

    def __post_init__(self):
        for name in ("archive", "archive_warned", "warn", "keep", "find", "newest", "recall", "update"):
            checks.share(f"RecallSettings: {name}", getattr(self, name))
        least = dict(window=2, core=0, attributes=1, messages=1, facts=1, questions=1)
        for name, value in least.items():
            checks.whole(f"RecallSettings: {name}", getattr(self, name), value)
        if self.facts > self.messages:
            raise ValueError(
                f"RecallSettings: facts a session must be at most messages = {self.messages}; got {self.facts}"
            )


# --- the world: what is said and asked, and all the luck ----------------------------------------


@dataclass(frozen=True)
class World:
    """F facts of D dialogues over A attributes, and the uniform draws that policies are held against.

    A shorter world of the same seed is the beginning of a longer one.
    """

    messages: int  # messages of a whole dialogue
    position: np.ndarray  # (F, D) message that carries the fact, from 0
    attribute: np.ndarray  # (F, D) what the fact is about
    latest: np.ndarray  # (A, D) the fact that holds the right value; -1 = never mentioned
    asked: np.ndarray  # (A, D) bool
    archive: np.ndarray  # (F, D) uniform: is the fact archived?
    keep: np.ndarray  # (F, D) uniform: how many flushes does it survive in the summary?
    find: np.ndarray  # (A, D) uniform: does the archive search find the attribute?
    newest: np.ndarray  # (A, D) uniform: is the newest of its versions picked?
    recall: np.ndarray  # (A, D) uniform: does recall storage find it?

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)  # worlds are cached and shared

    def of_latest(self, values):
        """(A, D) values of the facts that hold the right answers, from (F, D)."""
        return np.take_along_axis(values, np.maximum(self.latest, 0), axis=0)


@lru_cache(maxsize=32)  # more than the lengths of one curve, or each would push out the next
def draw_world(sessions, dialogues, seed, attributes, update, messages, facts, questions):
    """Draw what is said and asked in all dialogues; the arguments are those of `recall_study`."""
    F, A, D = sessions * facts, attributes, dialogues
    # A stream for each use: more sessions add draws at the end, and never shift the others.
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(7)]
    place, kind, which, archive, keep = (rng.random for rng in streams[:5])
    ask, answer = (rng.random for rng in streams[5:])

    places = np.sort(np.argsort(place((sessions, messages, D)), axis=1)[:, :facts], axis=1)
    position = (places + messages * np.arange(sessions)[:, None, None]).reshape(F, D)

    attribute = np.empty((F, D), dtype=int)
    latest = np.full((A, D), -1)
    known = np.zeros(D, dtype=int)  # attributes mentioned so far: 0 ... known - 1
    kind, which, row = kind((F, D)), which((F, D)), np.arange(D)
    for fact in range(F):
        again = ((kind[fact] < update) & (known > 0)) | (known == A)
        attribute[fact] = np.where(again, np.floor(which[fact] * known), known)
        latest[attribute[fact], row] = fact
        known += ~again

    # The attributes with the lowest draws are asked for: any `questions` of the mentioned ones.
    lot = np.where(latest >= 0, ask((A, D)), np.inf)
    asked = (np.argsort(np.argsort(lot, axis=0), axis=0) < questions) & (latest >= 0)
    return World(
        sessions * messages, position, attribute, latest, asked, archive((F, D)), keep((F, D)), *answer((3, A, D))
    )


# --- the systems: (world, settings) -> (A, D) bool, is the latest value given? ------------------


def flushes(messages, window):
    """Flushes that have happened after so many messages: (messages - window) // half + 1, at least 0.

    Each takes the oldest half = window // 2 of a full window; so the first j take j x half messages.
    """
    half = window // 2
    return np.maximum((messages - window) // half + 1, 0)


def in_window(world, s):
    """(F, D) bool: has the fact's message never been flushed?"""
    return world.position >= flushes(world.messages, s.window) * (s.window // 2)


def truncation(world, s):
    """Keeps the last `window` messages, and nothing else."""
    return world.of_latest(world.position >= world.messages - s.window)


def summary(world, s):
    """A flush first thins the summary, then adds the flushed facts without loss: right with keep^k.

    k is the number of flushes after the fact's own (0 if it is still in the window).
    """
    own = world.position // (s.window // 2)
    later = np.maximum(flushes(world.messages, s.window) - 1 - own, 0)
    return world.of_latest(world.keep < s.keep**later)


def memgpt(world, s):
    """Window, then core memory, then the archive (one version, or the newest of several), then recall."""
    held = world.position + 1 - flushes(world.position, s.window) * (s.window // 2)  # on arrival, with it
    warned = held >= s.warn * s.window - 1e-9  # 1e-9: a product just above a whole number must not shift it
    archived = world.archive < np.where(warned, s.archive_warned, s.archive)

    A, D = world.latest.shape
    cell = (world.attribute * D + np.arange(D))[archived]
    versions = np.bincount(cell, minlength=A * D).reshape(A, D)
    found = (versions > 0) & (world.find < s.find)
    newest = world.of_latest(archived) & ((versions == 1) | (world.newest < s.newest))
    stored = np.where(found, newest, world.recall < s.recall)
    return world.of_latest(in_window(world, s)) | in_core(world, s) | stored


def in_core(world, s):
    """(A, D) bool: is the attribute in core memory at the end? Then with its latest value.

    Every fact goes there: replaced in place if its attribute is there, else inserted. First in,
    first out: what was inserted as number i has left once i + core more have been.
    """
    number = np.full(world.latest.shape, -s.core - 1)  # number of the attribute's last insertion
    inserted = np.zeros(world.latest.shape[1], dtype=int)
    row = np.arange(len(inserted))
    for attribute in world.attribute:
        absent = inserted - number[attribute, row] > s.core
        number[attribute[absent], row[absent]] = inserted[absent]
        inserted += absent
    return inserted - number <= s.core


def memgpt_no_warning(world, s):
    """MemGPT without the memory-pressure warning: facts are archived with `archive` throughout."""
    return memgpt(world, replace(s, archive_warned=s.archive))


SYSTEMS = {
    "truncation": truncation,
    "summary": summary,
    "memgpt": memgpt,
    "memgpt_no_warning": memgpt_no_warning,
}


# --- the study ----------------------------------------------------------------------------------


def recall_study(sessions, settings=RecallSettings(), dialogues=100, seed=0):
    """Ask every system about the same dialogues.

    accuracy = mean over dialogues of (right answers / questions asked),
    standard error = their standard deviation / sqrt(dialogues).

    Parameters
    ----------
    sessions : int
        Sessions before the questions.
    settings : RecallSettings
    dialogues : int
    seed : int
        The same seed is the same luck, whatever the settings.

    Returns
    -------
    DataFrame
        A row a system: system, accuracy, standard_error (NaN for a single dialogue).

    Raises
    ------
    ValueError
        If sessions or dialogues is not a whole number from 1 on, or seed not one from 0 on.

    Notes
    -----
    Mechanism: MemGPT section 2; probabilities: L11 section 2.5. They are set, not measured.
    """
    checks.whole("recall_study: sessions", sessions, 1)
    checks.whole("recall_study: dialogues", dialogues, 1)
    checks.whole("recall_study: seed", seed, 0)
    if not isinstance(settings, RecallSettings):
        raise ValueError(f"recall_study: settings must be RecallSettings(...); got {settings!r}")
    s = settings
    world = draw_world(sessions, dialogues, seed, s.attributes, s.update, s.messages, s.facts, s.questions)
    rows = []
    for name, system in SYSTEMS.items():
        right = (system(world, s) & world.asked).sum(axis=0) / world.asked.sum(axis=0)
        error = right.std(ddof=1) / np.sqrt(dialogues) if dialogues > 1 else np.nan
        rows.append((name, right.mean(), error))
    return pd.DataFrame(rows, columns=["system", "accuracy", "standard_error"])


def recall_curve(settings=RecallSettings(), sessions=(5, 10, 20, 40), dialogues=100, seed=0):
    """`recall_study` at several lengths, of the same dialogues broken off earlier or later.

    Returns
    -------
    DataFrame
        sessions, system, accuracy, standard_error.
    """
    if isinstance(sessions, (str, bytes)) or not np.iterable(sessions) or not len(sessions):
        raise ValueError(f"recall_curve: sessions must be a list of whole numbers from 1 on; got {sessions!r}")
    studies = {n: recall_study(n, settings, dialogues, seed) for n in sessions}
    return pd.concat(studies, names=["sessions"]).reset_index("sessions").reset_index(drop=True)
