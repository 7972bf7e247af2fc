"""What is in an agent's prompt, and what its policy may see of it."""

from dataclasses import dataclass, field
from types import MappingProxyType

import pandas as pd

from labkit.memgpt_functions import Result, tool_schemas

EVENTS = {"user": "user message", "timer": "timer"}  # kinds of messages that make the model run
SPOKEN = ("user", "timer", "reply")  # kinds that conversation_search finds; the rest is machinery


@dataclass(frozen=True)
class Message:
    """An entry of the queue. Kinds: user, timer, reply, call, result, search, error, warning, note."""

    kind: str
    text: str
    tokens: tuple = field(repr=False)


@dataclass(frozen=True)
class Segment:
    """A part of a prompt: its kind (system, working, summary, or a message's), text and tokens.

    `cached` of the `tokens` were in the prefix cache.
    """

    kind: str
    text: str = field(repr=False)
    tokens: int
    cached: int = 0


@dataclass(frozen=True)
class Snapshot:
    """The main context as one call saw it, part by part."""

    segments: tuple

    @property
    def tokens(self):
        """Prompt tokens."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def table(self):
        """DataFrame, a row a segment in prompt order: kind, tokens, cached."""
        return pd.DataFrame([(s.kind, s.tokens, s.cached) for s in self.segments], columns=["kind", "tokens", "cached"])

    def render(self):
        """The prompt as text."""
        return "\n".join(f"[{s.kind}] {s.text}" for s in self.segments)


@dataclass(frozen=True)
class View:
    """What a policy may see at one call; nothing in it can be changed.

    Attributes
    ----------
    event : str
        Text of the user's message or timer that is being handled; `event_kind` is user or timer.
    turn : int
        Number of this event, from 0.
    done : tuple of Call
        The calls made so far for this event.
    last : Result or None
        What the last of them gave back (`ok`, `text`, `items`, `page`, `pages`).
    blocks : mapping of str to str
        The working context, label to text.
    messages : tuple of Message
        The queue, oldest first; `summary` is the recursive summary ("" before the first eviction).
    warned : bool
        A memory-pressure warning came just before this call; `warnings` counts those of this event.
    tokens, window : int
        Prompt tokens and the most there may be.
    functions : list of dict
        The available functions as JSON-schema tools, for a real model.
    prompt : str
        The whole prompt as text, for a real model.
    """

    event: str
    event_kind: str
    turn: int
    done: tuple
    last: Result | None
    blocks: MappingProxyType
    messages: tuple
    summary: str
    warned: bool
    warnings: int
    window: int
    snapshot: Snapshot = field(repr=False)

    @property
    def tokens(self):
        """Prompt tokens."""
        return self.snapshot.tokens

    @property
    def functions(self):
        """The available functions, as chat APIs take them."""
        return tool_schemas()

    @property
    def prompt(self):
        """The prompt as text."""
        return self.snapshot.render()
