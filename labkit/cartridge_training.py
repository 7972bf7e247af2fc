"""Training a cartridge: gradient descent on p keys and values, quick enough to watch.

    loss = mean over questions of KL(teacher || student)  or  -log student[answer]

Nothing but the cartridge is trained. Both losses have the gradient (E[value] under the student - target) on the output,
where the target is 64 numbers a question: the mean value embedding under the teacher, or the right value. That and an
entropy are all that is kept of the teacher. Source: L14 4.3-4.5; Eyuboglu et al. (2025), sections 3-4.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import tee

import numpy as np

from labkit import checks
from labkit.cartridge_gradient import ROWS, Adam, AnswerKey, Student, Teacher
from labkit.cartridge_world import DIM, TEST_ROUNDS, Cache, accuracy, normalise, one_thread, pick

TRAINING_STREAM, INIT_STREAM = 2, 3
BLOCK = 2048  # questions drawn and taught at once, in whole batches
LOSSES = 16  # batches whose mean loss is reported
WORK = 4e9  # FLOPs between two reports, about 0.1 s


@dataclass(frozen=True)
class Recipe:
    """What a training asks and what it is told: reworded questions or exact keys; a teacher's distribution or the answer."""

    reworded: bool
    teacher: bool


RECIPES = {
    "self-study": Recipe(reworded=True, teacher=True),  # KL to the same model with the question's chunk in its cache
    "memorise": Recipe(reworded=False, teacher=False),  # next-token prediction on the document itself
    "hard": Recipe(reworded=True, teacher=False),  # next-token prediction on the synthetic questions
}

SCHEDULES = {
    "constant": lambda step, steps: 1.0,
    "cosine": lambda step, steps: 0.5 * (1 + np.cos(np.pi * step / steps)),  # from 1 to 0 over the steps
}


def _first(facts, p, rng):
    return facts.keys[:p], facts.values[:p]


def _scattered(facts, p, rng):
    chosen = rng.permutation(len(facts))[:p]
    return facts.keys[chosen], facts.values[chosen]


def _directions(facts, p, rng):
    return normalise(rng.standard_normal((2, p, DIM)))


def _normal(facts, p, rng):
    return rng.standard_normal((2, p, DIM))


INITS = {
    "first": _first,  # KV of the document's first p facts
    "scattered": _scattered,  # KV of p facts anywhere in it
    "directions": _directions,  # unit vectors that belong to no fact
    "normal": _normal,  # standard normal numbers: keys of length about 8
}


@dataclass(frozen=True)
class TrainSettings:
    """How a cartridge is trained. The defaults are the lecture setting (L14 4.5), `LECTURE`; see also `LIVE`.

    Raises ValueError, saying what is allowed, for any impossible value.
    """

    size: int = 64  # p, rows of the cartridge; 64 is 8x smaller than 512 facts
    recipe: str = "self-study"  # a key of RECIPES
    steps: int = 3_000
    batch: int = 128  # questions a step
    lr_keys: float = 0.003  # Adam
    lr_values: float = 0.003  # Adam
    schedule: str = "constant"  # a key of SCHEDULES
    rephrasings: int | None = None  # of each fact, drawn once and reused in shuffled order; None draws afresh each step, with replacement
    init: str = "first"  # a key of INITS
    chunk: int = 512  # facts in the teacher's cache, as many as fit the window
    key_norm: float | None = None  # length that the keys are given at the start; None leaves the init's own
    beta2: float = 0.999  # Adam
    kinds: int | None = None  # kinds of rewordings that training sees; None all that the document's questions have

    def __post_init__(self):
        for name in ("size", "steps", "batch", "chunk"):
            checks.whole(f"TrainSettings: {name}", getattr(self, name), 1)
        for name in ("rephrasings", "kinds"):
            if getattr(self, name) is not None:
                checks.whole(f"TrainSettings: {name} (or None)", getattr(self, name), 1)
        for name in ("lr_keys", "lr_values"):
            checks.number(f"TrainSettings: {name}", getattr(self, name), 0, 1e38)  # as far as float32 goes
        if self.key_norm is not None:
            checks.number("TrainSettings: key_norm (or None)", self.key_norm, 0, 1_000, above=True)
        checks.number("TrainSettings: beta2", self.beta2, 0, 0.999_999)
        for name, table in (("recipe", RECIPES), ("schedule", SCHEDULES), ("init", INITS)):
            pick(table, getattr(self, name), f"TrainSettings: {name}")

    @property
    def preset(self):
        """Name of the preset in `PRESETS` whose optimiser this is, else "own". Numbers of two presets are not comparable.

        Size, recipe, steps, rephrasings, init, key norm, chunk and kinds are what one studies: they do not count.
        """
        return next((name for name, preset in PRESETS.items() if preset.optimiser == self.optimiser), "own")

    @property
    def optimiser(self):
        """(batch, lr_keys, lr_values, schedule, beta2, fresh questions)."""
        return self.batch, self.lr_keys, self.lr_values, self.schedule, self.beta2, self.rephrasings is None

    @property
    def block(self):
        """Steps whose questions are drawn and taught at once."""
        return max(1, BLOCK // self.batch)

    @property
    def lessons(self):
        """What decides the questions and what is taught about them."""
        return self.recipe, self.batch, self.rephrasings, self.chunk, self.kinds

    @property
    def way(self):
        """These settings without their end: trainings that differ in steps only go the same way, unless the rate knows the end."""
        return replace(self, steps=1) if self.schedule == "constant" else self

    def flops(self, vocabulary):
        """2 batch 64 (5 size + 2 vocabulary): floating-point operations of one step, without the teacher's."""
        return 2 * self.batch * DIM * (5 * self.size + 2 * vocabulary)

    def training_flops(self, n):
        """Floating-point operations of the whole training for n facts, the teacher's 4 x 64 (chunk + n) a question included."""
        asked = self.steps * self.batch
        if not RECIPES[self.recipe].teacher:
            taught = 0
        elif self.rephrasings is None:
            taught = asked
        else:
            taught = min(asked, n * self.rephrasings)
        return self.steps * self.flops(n) + taught * 4 * DIM * (min(self.chunk, n) + n)


LECTURE = TrainSettings()
# Ten times fewer steps to the same accuracy: larger and decaying rates, questions drawn once and reused.
LIVE = TrainSettings(steps=300, batch=256, lr_keys=0.01, lr_values=0.1, schedule="cosine", rephrasings=16, beta2=0.99)
# Gentler, so that cartridges trained apart can still be read together.
COMPOSABLE = TrainSettings(steps=800, batch=256, lr_keys=0.006, lr_values=0.01, schedule="cosine", rephrasings=16, beta2=0.99)
PRESETS = {"lecture": LECTURE, "live": LIVE, "live, composable": COMPOSABLE}


@dataclass(frozen=True, eq=False)
class Progress:
    """A training after `step` of `steps` steps.

    loss : nats a question, mean of the last batches (at most 16).
    accuracy : on reworded questions; one for each fact until the last report, which asks all four.
    preset : name of the settings' preset.
    """

    step: int
    cartridge: Cache
    loss: float
    accuracy: float
    steps: int
    preset: str


def train(facts, settings=LECTURE, seed=0, every=None, dtype=np.float32) -> Iterator[Progress]:
    """Train a cartridge, reporting now and then; the last report is the result.

    Parameters
    ----------
    facts : Facts
    settings : TrainSettings
    seed : int
        Of questions and init. Size, rates and init do not change which questions are asked in which order.
    every : int, optional
        Steps between reports; by default 30 reports, more in a long training so that none is much over 0.1 s away.
    dtype : numpy dtype
        float32 is twice as fast as float64 and learns the same.

    Yields
    ------
    Progress
        The first at step 0, the last at step `settings.steps`.

    Raises
    ------
    ValueError
        If the cartridge is larger than the document, or more kinds are asked for than there are.
    FloatingPointError
        If the training diverges: a learning rate is too large.
    """
    if every is None:
        every = min(-(-settings.steps // 30), max(1, int(WORK / settings.flops(len(facts)))))
    checks.whole("train: every", every, 1)
    run = _Training(facts, settings, seed, lessons(facts, settings, seed, dtype))
    run.first_loss()
    yield run.report(settings.steps)
    while run.step < settings.steps:
        run.advance(every)
        yield run.report(settings.steps)


def fit(facts, settings=LECTURE, seed=0) -> Progress:
    """`train` run to its end: its last Progress."""
    return fit_many(facts, [settings], seed)[0]


def fit_many(facts, several, seed=0) -> list[Progress]:
    """`fit` for each of several settings, with nothing done twice.

    Those that differ in size, steps, init or rates only hear the same teacher, once. Those that differ in steps only, at a
    constant rate, are one training with several ends.
    """
    groups, results = {}, {}
    for settings in several:
        groups.setdefault(settings.lessons, {}).setdefault(settings.way, set()).add(settings.steps)
    for ways in groups.values():
        first, ends = next(iter(ways)), set().union(*ways.values())
        runs = [(way, _Training(facts, replace(way, steps=max(ways[way])), seed, heard))
                for way, heard in zip(ways, tee(lessons(facts, first, seed), len(ways)))]
        for stop in sorted(ends.union(range(0, max(ends), first.block))):
            for way, run in runs:  # side by side, so that no more than a block of lessons waits
                run.advance(stop - run.step)
                if stop in ways[way]:
                    results[way, stop] = run.report(stop)
    return [results[settings.way, settings.steps] for settings in several]


# -- a training under way


class _Training:
    """A cartridge (2, p, 64), keys then values, with its optimiser and its lessons."""

    @one_thread
    def __init__(self, facts, settings, seed, lessons):
        checks.whole("size (the document has as many facts)", settings.size, 1, len(facts))
        self.facts, self.settings, self.lessons, self.step = facts, settings, lessons, 0
        self.batch = next(lessons)
        dtype = self.batch[0].dtype
        keys, values = INITS[settings.init](facts, settings.size, np.random.default_rng([seed, INIT_STREAM]))
        if settings.key_norm is not None:
            keys = settings.key_norm * normalise(keys)
        self.cartridge = np.stack([keys, values]).astype(dtype)
        self.adam = Adam(self.cartridge, settings.lr_keys, settings.lr_values, settings.beta2)
        self.student = Student(settings.batch, settings.size, facts.values.astype(dtype))
        self.losses = deque(maxlen=LOSSES)

    @one_thread
    def first_loss(self):
        """Loss of the first batch, before any step."""
        self.losses.append(self.student.gradient(self.cartridge, *self.batch)[0])

    @one_thread
    def advance(self, steps):
        """So many steps, or fewer if the training ends before."""
        settings = self.settings
        schedule = SCHEDULES[settings.schedule]
        with np.errstate(over="ignore", invalid="ignore"):  # caught in `report`, with a message
            for _ in range(min(steps, settings.steps - self.step)):
                loss, gradient = self.student.gradient(self.cartridge, *self.batch)
                self.adam.update(gradient, schedule(self.step, settings.steps))
                self.losses.append(loss)
                self.step += 1
                if self.step < settings.steps:
                    self.batch = next(self.lessons)
                else:
                    self.batch = self.lessons = None  # so that what longer trainings still hear is not kept for this one

    def report(self, steps):
        """Where the training of so many steps stands; FloatingPointError if it stands nowhere."""
        settings, cartridge = self.settings, Cache(*self.cartridge.copy())
        if not (np.isfinite(self.losses).all() and np.isfinite(self.cartridge).all()):
            raise FloatingPointError(
                f"the training diverged before step {self.step}: numbers grew beyond all bounds. Lower the learning rates "
                f"(lr_keys={settings.lr_keys:g}, lr_values={settings.lr_values:g})")
        with np.errstate(over="ignore", invalid="ignore"):  # the last good report of a training that diverges
            right = accuracy(cartridge, self.facts, rounds=TEST_ROUNDS if self.step == steps else 1)
        return Progress(self.step, cartridge, float(np.mean(self.losses)), right, steps, settings.preset)


def lessons(facts, settings, seed=0, dtype=np.float32):
    """Endless batches (questions, targets, constants) for `Student.gradient`."""
    checks.whole("seed", seed, 0)
    checks.whole("kinds (the document's questions have as many)", settings.kinds or 1, 1, facts.kinds)
    recipe, rng, embeddings = RECIPES[settings.recipe], np.random.default_rng([seed, TRAINING_STREAM]), facts.values.astype(dtype)
    teacher = (Teacher if recipe.teacher else AnswerKey)(facts, settings.chunk, embeddings)

    def ask(asked):
        if recipe.reworded:
            return facts.reword(asked, rng, settings.kinds, embeddings.dtype.type)
        return facts.keys[asked].astype(dtype)

    source = _fresh if settings.rephrasings is None else _pool
    return source(len(facts), settings, recipe, rng, ask, teacher, dtype)


def _parts(rows, size):
    """Slices of `size` rows, the last perhaps shorter."""
    return (slice(start, start + size) for start in range(0, rows, size))


def _fresh(n, settings, recipe, rng, ask, teacher, dtype):
    """New questions all the time, about facts drawn with replacement."""
    size = settings.block * settings.batch
    questions, targets, constants = (np.empty((size, columns), dtype) for columns in (DIM, DIM, 1))  # used again and again
    while True:
        asked = rng.integers(n, size=size)
        for part in _parts(size, ROWS):
            questions[part] = ask(asked[part])
        teacher.teach(questions, asked, out=(targets, constants))
        for part in _parts(size, settings.batch):
            yield questions[part].copy(), targets[part].copy(), constants[part].copy()


def _pool(n, settings, recipe, rng, ask, teacher, dtype):
    """The same questions again and again, each time in a new order; each is taught when it first comes up."""
    asked = np.tile(np.arange(n), settings.rephrasings if recipe.reworded else 1)
    questions = ask(asked)
    targets, constants = (np.empty((len(asked), columns), dtype) for columns in (DIM, 1))
    taught, order = np.zeros(len(asked), bool), np.array([], int)
    while True:
        while len(order) < settings.block * settings.batch:
            order = np.concatenate([order, rng.permutation(len(asked))])
        now, order = np.split(order, [settings.block * settings.batch])
        new = np.unique(now[~taught[now]])
        targets[new], constants[new] = teacher.teach(questions[new], asked[new])
        taught[new] = True
        for part in _parts(len(now), settings.batch):
            rows = now[part]
            yield questions[rows], targets[rows], constants[rows]
