"""The small world of the learning study: tasks that need lessons, and all the luck, drawn once (ours, not the paper's).

Tasks come in kinds; a kind needs one to three of 60 lessons, and some lessons are needed far more often (Zipf). So
what an agent knows can be counted. Every number here is an assumption, chosen for a picture of the size of the
paper's; what holds only for some of them is reported as a region, never as a fact about models.
"""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from labkit import checks


@dataclass(frozen=True)
class LearningSettings:
    """Assumptions of the learning study. Shares and chances are from 0 to 1, sizes in tokens."""

    lessons: int = 60  # lessons that there are to learn
    kinds: int = 60  # kinds of tasks, all as frequent
    zipf: float = 0.8  # lesson number i is needed with weight i^-zipf
    steps: int = 300  # tasks of the test stream, as in the serving study
    train: int = 60  # tasks of the training set of the offline arms
    epochs: int = 5  # passes over the training set; the paper's most
    base: float = 0.637  # accuracy without any lesson; the paper's 63.7 % of a ReAct agent
    gain: float = 0.30  # accuracy added by holding all lessons of a task
    harm: float = 0.35  # accuracy lost by holding a wrong one for each of them: misleading costs more than helping gives
    learn: float = 0.50  # chance that a reflection yields a lesson
    misread: float = 0.02  # chance that it is wrong though the feedback was right
    learn_alone: float = 0.30  # the same two where the curator reads the attempt itself, without a reflector
    misread_alone: float = 0.10
    long: int = 30  # lessons from which a context counts as long; below, the two chances to lose some shrink with it
    survival: float = 0.99  # chance of a lesson to survive one rewrite of a long context
    collapse: float = 1 / 60  # chance that such a rewrite collapses; the paper's figure 2 shows one in 61 steps
    left: float = 122 / 18_282  # share of the lessons that a collapse leaves: the paper's 18,282 -> 122 tokens
    summary_harm: float = 0.066  # what the collapsed summary costs until it has grown again: 63.7 - 57.1 %
    regrown: int = 3  # lessons from which a collapsed context counts as grown again
    brief: int = 5  # lessons that a short general prompt has room for
    budget: int = 80_000  # of the context; the public code's
    bullet: int = 40  # tokens of a lesson, as in the serving study
    record: int = 300  # tokens of each attempt that a context which is never cleaned keeps
    dilution: float = 100_000  # tokens of context at which only half of the lessons held are made use of
    prune: bool = False  # drop bullets with harmful >= helpful; the public code only counts them
    prune_votes: int = 3  # votes that a bullet must have before it may be pruned

    def __post_init__(self):
        shares = ("base", "gain", "harm", "learn", "misread", "learn_alone", "misread_alone", "survival", "collapse",
                  "left", "summary_harm")
        least = dict(lessons=3, kinds=1, steps=1, train=1, epochs=1, long=1, regrown=0, brief=0, budget=0, bullet=1, record=0,
                     prune_votes=1)
        for f in fields(self):
            name, value = f"LearningSettings: {f.name}", getattr(self, f.name)
            if f.name in least:
                checks.whole(name, value, least[f.name])
            if f.name in shares:
                checks.share(name, value)
        checks.number("LearningSettings: zipf", self.zipf, 0)
        checks.number("LearningSettings: dilution", self.dilution, 0, np.inf, above=True)
        checks.flag("LearningSettings: prune", self.prune)
        if self.base + self.gain > 1 or self.base - self.harm - self.summary_harm < 0:
            raise ValueError(f"LearningSettings: base + gain must be at most 1 and base - harm - summary_harm at least 0; "
                             f"got base={self.base}, gain={self.gain}, harm={self.harm}, summary_harm={self.summary_harm}")


@dataclass(frozen=True)
class World:
    """T tasks in each of S seeds over L lessons: train x epochs tasks of training, then the test stream.

    Lesson l has two columns: l is the right one, L + l its wrong twin; column 2 L stands for "none".
    All other arrays are uniform draws that chances are held against, so a slider changes chances and never the luck.
    """

    training: int  # the first so many tasks are training
    need: np.ndarray  # (T, S, 3) lessons of the task; 2 L where it needs fewer
    weight: np.ndarray  # (S, L) share of a lesson in all tasks; sums to 1
    success: np.ndarray  # (T, S)
    lie: np.ndarray  # (T, S) does the feedback lie?
    learn: np.ndarray  # (T, S) does the reflection yield a lesson?
    misread: np.ndarray  # (T, S) is it wrong all the same?
    which: np.ndarray  # (T, S) which of the task's lessons is it about?
    collapse: np.ndarray  # (T, S)
    survive: np.ndarray  # (T, S, 2 L + 1) which lessons a rewrite keeps

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)  # worlds are cached and shared


@lru_cache(maxsize=4)
def draw_world(seeds, lessons, kinds, zipf, steps, train, epochs):
    """The world of these seeds (a tuple of whole numbers); the other arguments as in `LearningSettings`."""
    T, L = train * epochs + steps, lessons
    popular = np.arange(1, L + 1) ** -float(zipf)
    parts = []
    for seed in seeds:
        tasks, luck, fate = (np.random.default_rng(child) for child in np.random.SeedSequence([6, seed]).spawn(3))
        # Lessons of a kind: the highest of Gumbel-shifted log weights are a weighted draw without replacement.
        order = np.argsort(-(np.log(popular) + tasks.gumbel(size=(kinds, L))), axis=1)[:, :3]
        number = tasks.integers(1, 4, kinds)
        of_kind = np.where(np.arange(3) < number[:, None], order, 2 * L)
        # The test stream is drawn first, so that it is the same however long the training.
        test, training = tasks.integers(kinds, size=steps), tasks.integers(kinds, size=train)
        kind = np.concatenate([np.tile(training, epochs), test])
        weight = np.bincount(of_kind.ravel(), np.repeat(1 / number / kinds, 3), minlength=2 * L + 1)[:L]
        draws, survive = luck.random((T, 6)), fate.random((T, 2 * L + 1), dtype=np.float32)
        draws, survive = np.roll(draws, -steps, axis=0), np.roll(survive, -steps, axis=0)
        parts.append((of_kind[kind], weight, *draws.T, survive))
    need, weight, *luck, survive = (np.stack(part, axis=-2 if part[0].ndim == 2 else -1) for part in zip(*parts))
    return World(train * epochs, need, weight.T, *luck, survive)
