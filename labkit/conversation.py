"""A toy long conversation: a user's changing life, told between much small talk, and questions about it.

There is no language model here. A message is a vector of 256 numbers (its embedding) and a number of tokens;
a fact is understood if a message that states it is read. What is left is the mechanics: what was said when, what
is out of date, and what a search by similarity finds. Follows the world of lecture notes L14, section 3.3, which
has the size of a LOCOMO conversation: 600 turns, 26,000 tokens, about 39 questions here.
"""

from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.conversation_text import KEYS, PERSON_NOISE, RELATIONS, TOPIC_NOISE, Wording, article
from labkit.conversation_world import (FIRST_ROLE, MAX_TURNS, MIN_TURNS, MOST, N_KEYS, PERSON, PERSON_FACT, STATEMENT, TOPIC, Draws,
                                       Versions, WorldSettings, draw_events, draw_versions, fresh, unit)

__all__ = ["MESSAGE_KINDS", "QUESTION_KINDS", "Conversation", "Draws", "Versions", "WorldSettings", "conversations"]
MESSAGE_KINDS = ("statement", "person fact", "topic noise", "person noise", "small talk")
QUESTION_KINDS = ("current", "previous", "two-hop")


class Conversation:
    """One conversation with its statements, its questions and everything random about it.

    Make one with :meth:`generate` or :meth:`scripted`.

    Attributes
    ----------
    turns : int
    embeddings : ndarray, shape (turns, dimensions)
        Of the messages. `memory_embeddings` (statements, dimensions) and `question_embeddings` are those of a memory
        extracted from each statement, and of each question.
    tokens : ndarray of int, shape (turns,)
    statement_turn, statement_key, statement_index, statement_version : ndarray of int, shape (statements,)
        Where a statement stands, the key it speaks of (0..19; 20 + 2 x person + relation for a person's fact), which of
        the key's values it states, and the version (for a fact: of the person) behind it.
    question_kind, question_key, question_relation : ndarray of int, shape (questions,)
    needs : ndarray of bool, shape (2, questions, statements)
        A question is answered when of each of its two groups of statements at least one was read.
    draws : Draws
    """

    @classmethod
    def generate(cls, seed, turns=600, settings=WorldSettings()):
        """A random conversation.

        Parameters
        ----------
        seed : int or numpy.random.Generator
        turns : int
            Messages, at least 200. L = turns / 600 scales changes and noise.
        settings : WorldSettings

        Raises
        ------
        ValueError
            If `turns` is below 200, or too small for what the settings let happen.
        """
        checks.whole("turns", turns, MIN_TURNS, MAX_TURNS)
        rng = np.random.default_rng(seed)
        versions = draw_versions(rng, turns / 600, settings)
        events = draw_events(rng, versions, turns, settings)
        return cls(rng, versions, events, settings)

    @classmethod
    def scripted(cls, script, seed=0, settings=WorldSettings()):
        """A conversation written by hand, to watch one mechanism at a time.

        Parameters
        ----------
        script : list of (key name, value) or (key name, value, sentence)
            One message each, in order, e.g. ``[("dish", "pizza", "I love pizza."), ("dish", "no pizza", "I hate pizza.")]``.
            Key names are those of `conversation_text.KEYS`. A value may be repeated until the next one is told.

        Raises
        ------
        ValueError
            For an empty script, an unknown key, or a value that returns after another one (values never return).
        """
        numbers = {key.name: number for number, key in enumerate(KEYS)}
        unknown = {name for name, *_ in script} - set(numbers)
        if not script or unknown:
            raise ValueError(f"script needs at least one (key, value); unknown keys {sorted(unknown)}, allowed are {sorted(numbers)}")
        found = {}
        for name, value, *_ in script:
            told = found.setdefault(numbers[name], {})
            if value in told and told[value] < len(told) - 1:
                raise ValueError(f"script: {value!r} returns for {name!r} after another value; values never return, use another word")
            told.setdefault(value, len(told))
        pairs = [(key, value) for key in sorted(found) for value in found[key]]
        index = [found[key][value] for key, value in pairs]
        versions = Versions(*(np.array(column) for column in ([key for key, _ in pairs], index, index, index)))
        events = [(turn, STATEMENT, pairs.index((numbers[name], value)), 0) for turn, (name, value, *_) in enumerate(script)]
        conversation = cls(np.random.default_rng(seed), versions, events, settings)
        conversation._value_words.update(enumerate(str(value) for _, value in pairs))
        conversation._sentences.update({turn: line[2] for turn, line in enumerate(script) if len(line) == 3})
        return conversation

    def __init__(self, rng, versions, events, settings):
        self.settings, self.versions = settings, versions
        self.turns = len(events)
        self._value_words, self._sentences = {}, {}  # words fixed by a script
        self._text_rng = rng.spawn(1)[0]
        events = sorted(events, key=lambda event: event[0])
        self._kind, self._subject, self._relation = np.array([event[1:] for event in events]).T
        self.tokens = rng.integers(settings.tokens_min, settings.tokens_max + 1, self.turns)
        self._list_statements()
        self._list_questions()
        self._embed(rng)
        count = len(self.statement_turn)
        extract, mistake, missed = rng.random((count, 3)).T
        odd, unknown, save = rng.random((count, 3)).T
        self.draws = Draws(extract, mistake, missed, odd, unknown, save, rng.random((len(self.question_kind), count)))

    def _list_statements(self):
        """Which messages state something, and what."""
        self.statement_turn = np.flatnonzero(self._kind <= PERSON_FACT)
        self.statement_version = self._subject[self.statement_turn]
        is_fact = self._kind[self.statement_turn] == PERSON_FACT
        fact_key = N_KEYS + 2 * self.statement_version + self._relation[self.statement_turn]
        self.statement_key = np.where(is_fact, fact_key, self.versions.key[self.statement_version])
        self.statement_index = np.where(is_fact, 0, self.versions.index[self.statement_version])

    def _list_questions(self):
        """Current value of each key, previous value where there are two, two facts of each role's person."""
        last = self.versions.last_index
        told = np.flatnonzero(last >= 0)
        facts = set(self.statement_key[self.statement_key >= N_KEYS])
        rows = [(0, key, -1) for key in told] + [(1, key, -1) for key in told if last[key] >= 1]
        rows += [(2, key, relation) for key in told if key >= FIRST_ROLE for relation in range(len(RELATIONS))
                 if N_KEYS + 2 * self.newest_version(key) + relation in facts]
        self.question_kind, self.question_key, self.question_relation = np.array(rows).T
        kind, key = self.question_kind, self.question_key
        same_key = self.statement_key == key[:, None]
        newest = same_key & (self.statement_index == last[key][:, None])
        before = same_key & (self.statement_index == last[key][:, None] - 1)
        person = np.array([self.newest_version(k) for k in key])
        fact = self.statement_key == (N_KEYS + 2 * person + self.question_relation)[:, None]
        second = np.select([kind[:, None] == 1, kind[:, None] == 2], [before, fact], newest)
        self.needs = np.stack([newest, second])

    def newest_version(self, key):
        """Row in `versions` of a key's newest value."""
        return int(np.flatnonzero(self.versions.key == key)[-1])

    def _embed(self, rng):
        """Embeddings of messages, memories, questions and follow-up searches; cosine = dot product."""
        s, dim = self.settings, self.settings.dimensions
        topics, relations = fresh(rng, N_KEYS, dim), fresh(rng, len(RELATIONS), dim)
        values = fresh(rng, len(self.versions.key), dim)
        signal = fresh(rng, self.turns, dim)  # small talk stays as it is; for the others it is the u of a noise message
        kinds = [np.flatnonzero(self._kind == kind) for kind in range(4)]
        subject, relation = [self._subject[rows] for rows in kinds], self._relation[kinds[PERSON_FACT]]
        signal[kinds[STATEMENT]] = topics[self.versions.key[subject[STATEMENT]]] + s.value_weight * values[subject[STATEMENT]]
        signal[kinds[PERSON_FACT]] = values[subject[PERSON_FACT]] + s.relation_weight * relations[relation]
        signal[kinds[TOPIC]] = topics[subject[TOPIC]] + s.value_weight * signal[kinds[TOPIC]]
        signal[kinds[PERSON]] = values[subject[PERSON]] + s.value_weight * signal[kinds[PERSON]]
        signal = unit(signal)

        def noisy(vectors, weight):
            return unit(vectors + np.float32(weight) * fresh(rng, len(vectors), dim))

        self.embeddings = noisy(signal, s.message_noise)
        self.memory_embeddings = noisy(signal[self.statement_turn], s.memory_noise)
        key, two_hop = self.question_key, self.question_kind == 2
        query = topics[key].copy()
        query[two_hop] = unit(query[two_hop] + s.relation_weight * relations[self.question_relation[two_hop]])
        self.question_embeddings = noisy(query, s.question_noise)
        self._role_search = noisy(topics[key[two_hop]], s.question_noise)
        self._fact_noise = np.float32(s.question_noise) * fresh(rng, int(two_hop.sum()), dim)
        self._values, self._relations = values, relations

    @cached_property
    def question_message_similarity(self):
        """Cosine of each question with each message, shape (questions, turns)."""
        return self.question_embeddings @ self.embeddings.T

    @cached_property
    def question_memory_similarity(self):
        """Cosine of each question with the memory of each statement, shape (questions, statements)."""
        return self.question_embeddings @ self.memory_embeddings.T

    @cached_property
    def memory_neighbours(self):
        """For each statement the statements before it, the most similar memory first; a list of lists."""
        similarity = self.memory_embeddings @ self.memory_embeddings.T
        return [np.argsort(-row[:number], kind="stable").tolist() for number, row in enumerate(similarity)]

    @cached_property
    def _first_two_hop(self):
        return int(np.count_nonzero(self.question_kind < 2))

    @cached_property
    def _role_similarity(self):
        return self._role_search @ self.embeddings.T

    def role_search(self, question):
        """First search of a two-hop question, "who is my partner": cosine with each message, shape (turns,)."""
        return self._role_similarity[question - self._first_two_hop]

    @cached_property
    def _fact_similarity(self):
        return {}

    def fact_search(self, question, version):
        """Second search, once a person is known, "where does Alex come from": cosine with each message, shape (turns,)."""
        if (question, version) not in self._fact_similarity:
            signal = self._values[version] + self.settings.relation_weight * self._relations[self.question_relation[question]]
            query = unit(unit(signal) + self._fact_noise[question - self._first_two_hop])
            self._fact_similarity[question, version] = self.embeddings @ query
        return self._fact_similarity[question, version]

    # --- the conversation as text -------------------------------------------------------------------------------------

    @cached_property
    def _words(self):
        return Wording(self._text_rng)

    @property
    def speakers(self):
        """Names of the user, whose life it is, and of the other one."""
        return self._words.user, self._words.other

    @cached_property
    def _person_number(self):
        """0, 1, ... for the versions that are persons, in order of appearance."""
        people = np.flatnonzero(self.versions.key >= FIRST_ROLE)
        return {version: number for number, version in enumerate(people[np.argsort(self.versions.start[people], kind="stable")])}

    def value_text(self, version):
        """The word for a version's value: a town, a job, a person's name."""
        if version in self._value_words:
            return self._value_words[version]
        if version in self._person_number:
            return self._words.person(self._person_number[version])
        return self._words.value(self.versions.key[version], self.versions.index[version])

    def _statement_words(self, statement):
        """(key name, value, template in the third person, words for it) of a statement."""
        version, key = self.statement_version[statement], self.statement_key[statement]
        value = self.value_text(version)
        if key < N_KEYS:
            return KEYS[key].name, value, KEYS[key].fact, {"user": self._words.user}
        number = (key - N_KEYS) % 2
        relation = RELATIONS[number]
        return f"{value}: {relation.name}", self._words.relation_value(self._person_number[version], number), relation.fact, {"p": value}

    def _message_text(self, turn):
        kind, subject, by_user, words = self._kind[turn], self._subject[turn], turn % 2 == 0, self._words
        if turn in self._sentences:
            return self._sentences[turn]
        if kind == STATEMENT:
            return words.statement(self.versions.key[subject], self.value_text(subject), by_user)
        if kind == PERSON_FACT:
            person, sentence = self.value_text(subject), words.pick(RELATIONS[self._relation[turn]].says)
            value = words.relation_value(self._person_number[subject], self._relation[turn])
            return sentence.format(p=person, v=value, a=article(value))
        if kind == TOPIC:
            return words.pick(TOPIC_NOISE).format(topic=KEYS[subject].topic)
        if kind == PERSON:
            return words.pick(PERSON_NOISE).format(p=self.value_text(subject))
        return words.small_talk()

    @cached_property
    def messages(self):
        """The dialogue: a row a message with turn (from 0), speaker, text, tokens and kind."""
        return pd.DataFrame({
            "turn": np.arange(self.turns), "speaker": [self.speakers[turn % 2] for turn in range(self.turns)],
            "text": [self._message_text(turn) for turn in range(self.turns)],
            "tokens": self.tokens, "kind": [MESSAGE_KINDS[kind] for kind in self._kind],
        })

    @cached_property
    def statements(self):
        """What the dialogue states: turn, key, value, version (0 for a key's first value) and text as a memory."""
        words = [self._statement_words(statement) for statement in range(len(self.statement_turn))]
        return pd.DataFrame({
            "turn": self.statement_turn, "key": [name for name, *_ in words], "value": [value for _, value, *_ in words],
            "version": self.statement_index,
            "text": [fact.format(v=value, a=article(value), **who) for _, value, fact, who in words],
        })

    @cached_property
    def questions(self):
        """The questions: kind, key, text and answer (the right value)."""
        rows = []
        for question, (kind, key, relation) in enumerate(zip(self.question_kind, self.question_key, self.question_relation)):
            template = (KEYS[key].asks, KEYS[key].asks_before, RELATIONS[relation].asks)[kind]
            answering = int(np.flatnonzero(self.needs[1, question])[0])
            rows.append((QUESTION_KINDS[kind], KEYS[key].name, template.format(user=self._words.user, role=KEYS[key].name),
                         self.statements.value[answering]))
        return pd.DataFrame(rows, columns=["kind", "key", "text", "answer"])


@lru_cache(maxsize=8)
def conversations(count=10, turns=600, seed=0):
    """Conversations with seeds seed, seed + 1, ...: a tuple, kept so that the next slider move finds it ready."""
    checks.whole("count", count, 1, 100_000)
    checks.whole("seed", seed, 0, MOST)
    return tuple(Conversation.generate(seed + number, turns) for number in range(count))
