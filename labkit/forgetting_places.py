"""Where a fact may be left: the memories that are asked. Each asking gives the share of questions that bring the value back.

All take (life, request, turn): which life, what was removed at message NOW, after which message one asks.
"""

import copy
from functools import cache, lru_cache

import numpy as np

from labkit.ace import Delta, Playbook, bag_of_words
from labkit.cartridges import LIVE, Cache, Facts, fit, slot_of
from labkit.conversation_world import fresh, unit
from labkit.forgetting_life import ASKINGS, FACTS, NOW, PERFECT, SEED
from labkit.memory_protocol import NEVER, top
from labkit.memory_systems import Mem0, Mem0Graph, Rag

# --- what is stored as vectors: transcript, index, store, graph ----------------------------------------------------


def _transcript(life, request, turn):
    """Texts of the messages kept after a turn."""
    texts = life.world.messages.text[: turn + 1]
    gone = life.world.statement_turn[life.targets] if request.raw else []
    return texts.drop(index=[t for t in gone if t <= turn])


def full_context(life, request, turn):
    """The transcript is the prompt: every asking sees all of it."""
    return float(any(map(life.names, _transcript(life, request, turn))))


def _chunk_vectors(life, request, turn):
    """Index of the chunks after a turn: (first message of each, unit vectors); made anew only if `rebuilt`."""
    world, memory = life.world, _index(life.world)
    used = np.arange(world.turns) <= turn
    if request.raw and request.rebuilt:
        used[world.statement_turn[life.targets]] = False
    sums = np.add.reduceat(world.embeddings * used[:, None], memory.starts)
    return memory.starts, unit(sums)


@lru_cache(maxsize=4)
def _index(world):
    return Rag(chunk=128, k=8).build(world)


def rag_text(life, request, turn):
    """The chunks nearest to the question are read; their text is what the transcript still has."""
    starts, vectors = _chunk_vectors(life, request, turn)
    read = top(life.questions @ vectors.T, _index(life.world).system.k)
    kept = _transcript(life, request, turn)
    named = np.zeros(len(starts), bool)
    named[[np.searchsorted(starts, t, side="right") - 1 for t, text in kept.items() if life.names(text)]] = True
    return float((read & named).any(axis=1).mean())


GUESSES = 60  # words that a guesser tries, the right one among them: as many as there are towns


def _guessed(life, vectors):
    """Share of the forgotten statements whose value a guesser finds: of 60 sentences "Felix lives in X" the one nearest to a stored vector.

    The right sentence is the memory's embedding; in the others a random direction stands in the value's place.
    """
    world, rng, right = life.world, np.random.default_rng([SEED, 8]), []
    for statement in np.flatnonzero(life.targets):
        true, value = world.memory_embeddings[statement], world._values[world.statement_version[statement]]
        others = unit(true + (true @ value) * (fresh(rng, GUESSES - 1, len(value)) - value))
        score = (np.vstack([true, others]) @ vectors.T).max(axis=1)
        right.append(score.argmax() == 0)
    return float(np.mean(right))


def rag_vectors(life, request, turn):
    """The index without its text: vectors remember what they were made from."""
    return _guessed(life, _chunk_vectors(life, request, turn)[1])


def _store(life, request, system):
    """The store of mem0 or its graph at the end of the conversation, its forgotten memories treated as asked."""
    memory = copy.copy(_built(life.world, system))
    memory.added, memory.removed = memory.added.copy(), memory.removed.copy()
    held = life.targets & memory.valid_at(NOW - 1)
    if request.entries:
        memory.removed[held] = NOW - 1
    if request.old_versions:
        memory.added[life.targets & ~memory.valid_at(NOW - 1)] = NEVER  # erased, not only invalid
    memory.operations = [row for row in memory.operations if not (request.old_versions and row[3] >= 0 and life.targets[row[3]])]
    memory.conversation = copy.copy(life.world)
    vars(memory.conversation).pop("question_memory_similarity", None)
    memory.conversation.question_embeddings = life.questions
    return memory


@lru_cache(maxsize=8)
def _built(world, system):
    return system.build(world)


def mem0_store(life, request, turn):
    """The k nearest memories are read."""
    return float(_store(life, request, Mem0(**PERFECT)).read_at(turn)[:, life.targets].any(axis=1).mean())


def mem0_log(life, request, turn):
    """The history of operations, which mem0 keeps beside the store: it quotes what it deleted."""
    log = _store(life, request, Mem0(**PERFECT)).log
    return float(any(life.names(text) for at, text in zip(log.turn, log.text) if at <= turn))


def graph_valid(life, request, turn):
    """Valid edges among those that are read."""
    memory = _store(life, request, Mem0Graph(**PERFECT))
    return float((memory.read_at(turn) & memory.valid_at(turn))[:, life.targets].any(axis=1).mean())


def graph_old(life, request, turn):
    """Invalid edges among those that are read: the history of a key that has a valid memory."""
    memory = _store(life, request, Mem0Graph(**PERFECT))
    return float((memory.read_at(turn) & memory.superseded_at(turn))[:, life.targets].any(axis=1).mean())


# --- the playbook -------------------------------------------------------------------------------------------------

LESSONS = {  # what an agent that runs errands wrote down; {old} and {new} are the user's values, "" = none
    "city": (("entry", "Home deliveries go to the user's address in {old}."),
             ("entry", "Home deliveries go to the user's address in {new}."),
             ("other", "Trains from {new} to the office leave at 7 and 37 past.")),
    "allergy": (("entry", "The user is allergic to {new}: order nothing with it."),
                ("other", "The bakery on the corner puts {new} on everything, choose another.")),
}
NEUTRAL = ("Check the unit before you add two columns.", "A draft is not sent: call send().", "Calendar times are in UTC.",
           "Find a person by phone number: first names repeat.")


def _playbook(life, request):
    """A playbook that was merged from small deltas, then asked to forget."""
    name = FACTS[request.fact]
    said = [(kind, text.format(old=life.values[0], new=life.values[-1])) for kind, text in LESSONS[name]]
    book = Playbook(sections=("OTHERS",))
    for text in (*NEUTRAL[:2], *(text for _, text in said), *NEUTRAL[2:]):
        book = book.merge(Delta(({"type": "ADD", "section": "OTHERS", "content": text},)))
    if request.entries:  # the newest bullet that an embedding finds
        vectors = bag_of_words([said[-2][1], *(bullet.text for bullet in book.bullets)])
        found = book.bullets[int(np.argmax(vectors[1:] @ vectors[0]))]
        book = book.merge(Delta(({"type": "DELETE", "id": found.id},)))
    if request.old_versions:
        gone = [bullet.id for bullet in book.bullets if life.names(bullet.text)]
        book = book.merge(Delta(tuple({"type": "DELETE", "id": id} for id in gone)))
    return book


def playbook(life, request, turn):
    """The whole playbook is in the prompt."""
    return float(life.names(_playbook(life, request).render()))


# --- the cartridge ------------------------------------------------------------------------------------------------

PRIVATE = {"where the user lives": 0, "what the user is allergic to": 1}  # which of the 512 facts stands for it
SIZE = 64


@cache
def _document():
    return Facts.random(512, SEED)


@lru_cache(maxsize=4)
def _trained(without=None):
    """A cartridge trained live (preset "live") for the document, or for the document without one fact."""
    facts = _document()
    kept = np.arange(len(facts)) != (-1 if without is None else without)
    return fit(facts[kept], LIVE, SEED).cartridge


def _cartridge(request):
    number, cartridge = PRIVATE[request.fact], _trained()
    if request.cartridge == "cut out the slot":
        slot = slot_of(cartridge, _document()[number : number + 1])[0]
        return Cache(np.delete(cartridge.keys, slot, axis=0), np.delete(cartridge.values, slot, axis=0))
    return _trained(number) if request.cartridge == "train again without it" else cartridge


def _right(cartridge, numbers, rounds):
    """Share of reworded questions about these facts that the cartridge answers, out of all values of the document."""
    facts = _document()
    asked = np.tile(numbers, rounds)
    questions = facts.reword(asked, np.random.default_rng([SEED, 9]))
    return float(((cartridge.read(questions) @ facts.values.T).argmax(axis=1) == asked).mean())


def cartridge(life, request, turn):
    """Share of the reworded questions that it still answers."""
    return _right(_cartridge(request), [PRIVATE[request.fact]], ASKINGS)


def other_facts(request):
    """What forgetting cost the others: share of questions answered about all other facts, and about those of the same slot."""
    number, cartridge = PRIVATE[request.fact], _cartridge(request)
    slots = slot_of(_trained(), _document())
    others = np.arange(len(slots)) != number
    return tuple(_right(cartridge, np.flatnonzero(some), 4) for some in (others, others & (slots == slots[number])))
