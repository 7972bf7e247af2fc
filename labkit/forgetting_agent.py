"""The MemGPT agent that is asked to forget: a policy that takes notes, and what its owner can do beyond the agent's functions."""

import copy
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from labkit.forgetting_life import NOW, life
from labkit.memgpt import Agent, AgentSettings, Block, Call, Message
from labkit.prefix_cache import RadixCache

WINDOW = 2_000  # tokens: small, so that 150 messages evict several times
SUMMARY = 800  # tokens of the recursive summary
CORE = ("city", "allergy", "partner", "job", "native language", "page")  # what the agent keeps in its working context


class ErasableAgent(Agent):
    """A MemGPT agent whose owner can do what the agent's functions cannot: erase messages, write the summary anew."""

    def erase(self, names):
        """Drop every message, queued or in recall storage, and every archived text, that `names(text)`."""
        self.queue[:] = [m for m in self.queue if not names(m.text)]
        _erase(self.memory.recall, names)

    def erase_archive(self, names):
        """Drop the archived texts that `names(text)`."""
        _erase(self.memory.archival, names)

    def erase_lines(self, names):
        """Drop the lines of the working context that `names(text)`."""
        for label, block in self.memory.blocks.items():
            kept = "\n".join(line for line in block.value.splitlines() if not names(line))
            self.memory.blocks[label] = Block(kept, block.limit, block.read_only)
        self._working = self._written()

    def renew(self):
        """Write the summary anew from the messages in recall storage that have left the queue, and empty the prefix cache."""
        told = [self.memory.recall.texts[i].split(": ", 1) for i in self.memory.recall.searched]
        queued = {m.text for m in self.queue}
        messages = [Message(kind, text, ()) for kind, text in told if text not in queued]
        self._summary = self._cut(self.summarise("", tuple(messages), self.settings.summary))
        self.cache = RadixCache()

    def prompt_until(self, names):
        """Token ids of the prompt as it stands, and how many stand before the first line that `names(line)`."""
        tokens, place = [], None
        for kind, text, own in self._parts():
            lines = text.splitlines()
            first = next((i for i, line in enumerate(lines) if names(line)), None)
            if place is None and first is not None:
                place = len(tokens) + len(self.tokenize(f"[{kind}] " + "\n".join(lines[:first])))
            tokens += own
        return tokens, place


def _erase(storage, names):
    kept = [i for i, text in enumerate(storage.texts) if not names(text)]
    place = {old: new for new, old in enumerate(kept)}
    storage.texts[:] = [storage.texts[i] for i in kept]
    storage.searched[:] = [place[i] for i in storage.searched if i in place]


@dataclass(frozen=True, eq=False)
class NoteTaker:
    """A policy: key facts go to the working context, old values and other facts to the archive.

    Under memory pressure the oldest stated fact in view is archived word for word.
    notes : message -> (key, text of the memory).  forget : what the user asks -> texts of the memories concerned.
    """

    notes: dict
    forget: dict

    def __call__(self, view):
        human, done = view.blocks["human"], [call.function for call in view.done]
        again = {"label": "human", "request_heartbeat": True}
        if view.event in self.forget:
            for text in self.forget[view.event]:
                if text in human:
                    return Call("core_memory_replace", old_content=text, new_content="", **again)
            return Call("send_message", message="I have forgotten it.")
        if view.warned:
            oldest = next((m.text for m in view.messages if m.text in self.notes), None)
            if oldest:
                return Call("archival_memory_insert", content=oldest, request_heartbeat=True)
        if view.event in self.notes and "core_memory_replace" not in done:
            key, text = self.notes[view.event]
            if key not in CORE:
                said = Call("send_message", message="I see.")
                return said if done else Call("archival_memory_insert", content=text, request_heartbeat=True)
            old = next((t for k, t in self.notes.values() if k == key and t in human and t != text), None)
            if old and not done:
                return Call("archival_memory_insert", content=f"Until now: {old}", request_heartbeat=True)
            if old:
                return Call("core_memory_replace", old_content=old, new_content=text, **again)
            if text not in human:
                return Call("core_memory_append", content=text, **again)
        return Call("send_message", message="I see.")


@cache
def _agent(fact):
    """The agent after the messages up to NOW."""
    story = life(fact)
    world, facts = story.world, story.world.statements
    texts = world.messages.text
    notes = {texts[turn]: (key, text) for turn, key, text in zip(facts.turn, facts.key, facts.text)}
    forget = {f"Forget {fact}.": tuple(dict.fromkeys(facts.text[story.targets]))}
    agent = ErasableAgent(NoteTaker(notes, forget), AgentSettings(window=WINDOW, summary=SUMMARY), cache=RadixCache(),
                          blocks={"human": Block()})
    for text in texts[:NOW]:
        agent.user(text)
    return agent


@lru_cache(maxsize=64)
def asked_agent(request):
    """The agent right after the request and at the end of the conversation, the prompt that was cached, tokens of the request's calls."""
    story, agent = life(request.fact), copy.deepcopy(_agent(request.fact))
    prompt, start = agent.prompt_until(story.names), len(agent.trace)
    if request.entries:
        agent.user(f"Forget {request.fact}.")
    spent = agent.trace.iloc[start:]
    if request.old_versions:
        agent.erase_archive(story.names)
        agent.erase_lines(story.names)
    if request.raw:
        agent.erase(story.names)
    if request.rebuilt:
        agent.renew()
    later = copy.deepcopy(agent)
    for text in story.world.messages.text[NOW:]:
        later.user(text)
    return {NOW - 1: agent, story.world.turns - 1: later}, prompt, spent


def in_prompt(texts):
    """A place that stands in every prompt: every asking sees it, or none does."""

    def share(life, request, turn):
        agent = asked_agent(request)[0][turn]
        return float(any(map(life.names, texts(agent))))

    return share


def by_search(storage):
    """Share of the phrases whose pages of results name the value."""

    def share(life, request, turn):
        found = [storage(asked_agent(request)[0][turn]).search(phrase) for phrase in life.phrases]
        return float(np.mean([any(map(life.names, result.items)) for result in found]))

    return share


def prefix_cache_kv(life, request, turn):
    """The prompt from before the request is sent again: does the cache still hold KV from where the value stands on?"""
    agents, (prompt, place), _ = asked_agent(request)
    return float(copy.deepcopy(agents[turn].cache).request(prompt).hit > place + 20)  # 20: beyond the line that names it
