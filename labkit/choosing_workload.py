"""A workload, and what a memory costs for it: the two ends of `labkit.choosing.price` (L14 section 6)."""

from dataclasses import dataclass

import numpy as np

from labkit import checks
from labkit.kv_cost import ANSWER_TOKENS, QUESTION_TOKENS
from labkit.model import check

MODEL, GPU = "Llama-3-8B", "H100 SXM"  # whose seconds are counted where no roofline is given
KINDS = ("documents", "conversation", "experience")  # a corpus, a user, what an agent lived through (L14 1.1)
WEEK_S = 7 * 24 * 3600


@dataclass(frozen=True)
class Workload:
    """What is to be remembered, and how it is asked.

    Raises
    ------
    ValueError
        For an impossible value; says what is allowed.
    """

    kind: str = "documents"  # one of KINDS; the facts of a conversation change, old and new stand in the text
    tokens: float = 128_000  # of the raw text: of each user's own, or of the one that all share
    reads: float = 200.0  # queries of one user for each write, that is until the text changes
    users: int = 1_000  # who ask; each with a text of their own unless it is shared
    updates: float = 1.0  # writes a week
    new: float = 1.0  # share of the text that a write brings; 1 = all of it is new
    window: float = 128_000 + QUESTION_TOKENS + ANSWER_TOKENS  # tokens of the model's context window: 128,000 and the talk
    shared: bool = False  # one text for all users
    lookup: bool = False  # documents: a passage or two hold the answer, so a search can find it
    history: bool = True  # conversation: previous values are asked for too, not only current ones
    accuracy: float = 0.70  # conversation, experience: the least share of right answers that will do

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"Workload: kind must be one of {', '.join(KINDS)}; got {self.kind!r}")
        for name in ("tokens", "reads", "updates", "window"):
            self._number(name, 0, np.inf, above=True)
        for name in ("new", "accuracy"):
            self._number(name, 0, 1)
        checks.whole("Workload: users", self.users, 1)
        for name in ("shared", "lookup", "history"):
            checks.flag(f"Workload: {name}", getattr(self, name))

    def _number(self, name, least, most, above=False):
        if np.ndim(getattr(self, name)):
            raise ValueError(f"Workload: {name} must be one number; got {getattr(self, name)!r}")
        check(f"Workload: {name}", getattr(self, name), least, most, above)

    @property
    def reads_a_write(self):
        """reads x users who share the text: queries among which one write is divided."""
        return self.reads * (self.users if self.shared else 1)

    @property
    def queries_a_week(self):
        """reads x updates x users."""
        return self.reads * self.updates * self.users


@dataclass(frozen=True)
class Cost:
    """What a memory costs: GPU seconds of a query and of a write, tokens in the prompt, users, GB, and why not.

    read, write : GPU seconds.  prompt : tokens before the question.  own, common : tokens of KV that a user alone, and that all
    users together hold while answering.  kept : bytes at rest for one text.  accuracy : share right; NaN where nothing
    was simulated.  why_not : why it cannot answer; "" if it can.
    """

    read: float
    write: float
    prompt: float
    own: float
    common: float = 0.0
    kept: float = 0.0
    accuracy: float = np.nan
    why_not: str = ""
