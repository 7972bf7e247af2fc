"""The simulation behind the learning study: playbooks of countable lessons, many at once, task by task.

    p(success) = base + use x (gain x share of the task's lessons held - harm x share held in a wrong form)
    use        = 1 / (1 + tokens / dilution)

All ways of keeping lessons go through the same code. A way is a row of `WAYS`, and rewriting differs from appending in
one thing only: what an update does to the lessons already held (`_Learners._rewrite`).
"""

from dataclasses import dataclass

import numpy as np

from labkit import checks
from labkit.ace_serving import PlaybookSettings, step_seconds
from labkit.ace_world import LearningSettings, draw_world

SEEDS = 24  # worlds a study averages over
NOWHERE = 1_000_000  # bullets in front of the first that went, where none went


@dataclass(frozen=True)
class Way:
    """What becomes of lessons once they are written down."""

    learns: bool = True
    rewrites: bool = False  # each update writes the whole context anew: lessons may get lost, and it may collapse
    short: bool = False  # room for `brief` lessons only
    piles: bool = False  # keeps the record of every attempt, and cleans nothing; over the budget old records fall out


WAYS = {
    "none": Way(learns=False),
    "append": Way(),  # ACE: append and refine
    "rewrite": Way(rewrites=True),
    "brief": Way(short=True),
    "pile": Way(piles=True),
}

# Whether a stage learns: (training set, test stream).
ARMS = {"online": (None, True), "offline": (True, False), "offline, then online": (True, True)}


@dataclass(frozen=True)
class Condition:
    """One line of a study: a way, the reliability f of its feedback, and its assumptions."""

    way: str = "append"
    reliability: float = 1.0
    settings: LearningSettings = LearningSettings()
    reflector: bool = True  # a separate reflector, or the curator reads the attempt itself

    def __post_init__(self):
        if not isinstance(self.way, str) or self.way not in WAYS:
            raise ValueError(f"way must be one of {', '.join(WAYS)}; got {self.way!r}")
        checks.share("reliability", self.reliability)
        if not isinstance(self.settings, LearningSettings):
            raise ValueError(f"settings must be LearningSettings; got {self.settings!r}")


# --- the simulation: C conditions x S seeds = R rows, step by step ----------------------------------------------


class _Learners:
    """R playbooks, lesson by lesson: columns as in `World`."""

    def __init__(self, conditions, world):
        self.world = world
        seeds = world.weight.shape[0]
        self.L = world.weight.shape[1]
        self.seed = np.tile(np.arange(seeds), len(conditions))
        ways = [WAYS[c.way] for c in conditions]

        def rows(values):
            return np.repeat(np.array(values), seeds)

        def setting(name):
            return rows([getattr(c.settings, name) for c in conditions])

        for name in ("base", "gain", "harm", "left", "summary_harm", "regrown", "bullet", "dilution", "prune_votes",
                     "survival", "collapse", "long"):
            setattr(self, name, setting(name))
        self.reliability = rows([c.reliability for c in conditions])
        self.learn = np.where(rows([c.reflector for c in conditions]), setting("learn"), setting("learn_alone"))
        self.misread = np.where(rows([c.reflector for c in conditions]), setting("misread"), setting("misread_alone"))
        self.learns, self.rewrites, short, piles = (
            rows([getattr(way, name) for way in ways]) for name in ("learns", "rewrites", "short", "piles"))
        room = setting("budget") // self.bullet
        self.room = np.where(short, np.minimum(setting("brief"), room), room)
        self.prune = setting("prune") & ~piles
        self.record = np.where(piles, setting("record"), 0)
        self.most = np.where(piles, setting("budget"), np.inf)  # the oldest records fall out of the context

        shape = (len(self.seed), 2 * self.L + 1)
        self.row = np.arange(shape[0])
        self.rewriting = np.flatnonzero(self.rewrites)
        self.held = np.zeros(shape, dtype=bool)
        self.score, self.votes, self.born = np.zeros((3, *shape), dtype=np.int32)
        self.records = np.zeros(shape[0])
        self.collapsed = np.zeros(shape[0], dtype=bool)
        weight = world.weight[self.seed]
        self.worth = np.hstack([self.gain[:, None] * weight, -self.harm[:, None] * weight, 0 * weight[:, :1]])

    def state(self):
        """What a step's prompt holds: accuracy over all tasks, tokens, lessons, wrong lessons; each (R,)."""
        right, wrong = self.held[:, : self.L].sum(1), self.held[:, self.L :].sum(1)
        tokens = self.bullet * (right + wrong) + self.records
        self.use = 1 / (1 + tokens / self.dilution)
        accuracy = self.base + self.use * np.einsum("rc,rc->r", self.held, self.worth) - self.summary_harm * self.collapsed
        return accuracy, tokens, right, wrong

    def step(self, t, learning):
        """Do task t and, if `learning`, learn from it; returns tokens kept in front, tokens written, collapses; (R,)."""
        world, seed = self.world, self.seed
        need = world.need[t][seed]  # (R, 3)
        needed = need < 2 * self.L
        twin = np.where(needed, need + self.L, need)
        columns = np.hstack([need, twin])  # (R, 6)
        used = self.held[self.row[:, None], columns]
        right, wrong = used[:, :3], used[:, 3:]
        share = (self.gain * right.sum(1) - self.harm * wrong.sum(1)) / needed.sum(1)
        success = world.success[t][seed] < self.base + self.use * share - self.summary_harm * self.collapsed
        before = self.held.sum(1)
        kept = self.bullet * before + self.records
        if not learning:
            return kept, np.zeros_like(kept), np.zeros_like(success)

        lie = world.lie[t][seed] >= self.reliability
        seen = success != lie
        self._vote(columns, used, seen)
        fell = self._rewrite(t, before)
        added = self._learn(t, need, twin, needed, right, wrong, seen, lie)
        cut = np.minimum(self._prune(columns), self._make_room(added))
        held = self.held.sum(1)
        self.collapsed = (self.collapsed | fell) & (held < self.regrown)
        records = np.minimum(self.records + self.record, np.maximum(self.most - self.bullet * held, 0))
        broken = self.rewrites | (records < self.records + self.record)  # all new, or the oldest record fell out
        self.records = records
        kept = np.where(broken, 0, np.minimum(kept, self.bullet * cut))
        written = self.bullet * np.where(self.rewrites, held, added)
        return kept, written, fell

    def _vote(self, columns, used, seen):
        """Bullets that were used are tagged by what the feedback says, the only thing there is to go by."""
        at = (self.row[:, None], columns)
        self.votes[at] += used
        self.score[at] += np.where(seen[:, None], used, -1 * used)

    def _rewrite(self, t, before):
        """The one difference: a rewrite keeps each lesson with a chance that falls with length, or collapses."""
        fell = np.zeros(len(self.row), dtype=bool)
        rows = self.rewriting
        if len(rows):
            length = np.minimum(1, before[rows] / self.long[rows])
            fell[rows] = self.world.collapse[t][self.seed[rows]] < self.collapse[rows] * length
            chance = np.where(fell[rows], self.left[rows], 1 - (1 - self.survival[rows]) * length)
            self.held[rows] &= self.world.survive[t][self.seed[rows]] < chance[:, None]
        return fell

    def _learn(self, t, need, twin, needed, right, wrong, seen, lie):
        """From what is seen as a failure: a lesson that was missing, or a wrong one if it was none or was misread."""
        world, seed = self.world, self.seed
        mistaken = lie | (world.misread[t][seed] < self.misread)
        missing = needed & np.where(mistaken[:, None], ~wrong, ~right)
        number = missing.sum(1)
        chosen = np.floor(world.which[t][seed] * number).astype(int) + 1
        place = np.argmax(np.cumsum(missing, axis=1) >= chosen[:, None], axis=1)  # the chosen-th that is missing
        added = self.learns & ~seen & (world.learn[t][seed] < self.learn) & (number > 0)
        at = (self.row[added], np.where(mistaken, twin[self.row, place], need[self.row, place])[added])
        self.held[at] = True
        self.score[at] = self.votes[at] = 0
        self.born[at] = t
        return added

    def _prune(self, columns):
        """Drop used bullets with harmful >= helpful; returns the bullets in front of the first that went."""
        cut = np.full(len(self.row), NOWHERE)
        if not self.prune.any():
            return cut
        at = (self.row[:, None], columns)
        bad = self.prune[:, None] & self.held[at] & (self.score[at] <= 0) & (self.votes[at] >= self.prune_votes[:, None])
        rows, places = np.nonzero(bad)
        np.minimum.at(cut, rows, self._drop(rows, columns[rows, places]))
        return cut

    def _make_room(self, added):
        """Where there are too many: the lowest helpful - harmful goes, of equals the oldest."""
        cut = np.full(len(self.row), NOWHERE)
        rows = np.flatnonzero(added)
        rows = rows[self.held[rows].sum(1) > self.room[rows]]
        if len(rows):
            worth = self.score[rows].astype(np.int64) * NOWHERE + self.born[rows]  # the score first, then the age
            cut[rows] = self._drop(rows, np.where(self.held[rows], worth, np.iinfo(np.int64).max).argmin(axis=1))
        return cut

    def _drop(self, rows, columns):
        """Drop these lessons; returns for each the bullets in front of it."""
        self.held[rows, columns] = False
        return (self.held[rows] & (self.born[rows] < self.born[rows, columns][:, None])).sum(axis=1)


def simulate(conditions, arm="online", seeds=SEEDS):
    """Run all conditions in the same worlds, with the same luck.

    Parameters
    ----------
    conditions : list of Condition
        They may differ in everything but the world itself (lessons, kinds, zipf, steps, train, epochs).
    arm : str
        A key of ARMS: learn online from the test stream; offline from several epochs over a training set, then stop;
        or both.
    seeds : int or sequence of int
        How many worlds, or which.

    Returns
    -------
    dict of ndarray, each of shape (steps, conditions, seeds)
        accuracy (expected over all tasks), tokens (of the context), lessons, wrong, written (tokens), collapses (0 or
        1), gpu_seconds (prefill, answer and writing of a step, on one GPU of the serving study).
    """
    seeds = _seeds(seeds)
    if not isinstance(arm, str) or arm not in ARMS:
        raise ValueError(f"arm must be one of {', '.join(ARMS)}; got {arm!r}")
    worlds = {tuple(getattr(c.settings, name) for name in ("lessons", "kinds", "zipf", "steps", "train", "epochs"))
              for c in conditions}
    if len(worlds) != 1:
        raise ValueError("conditions of one run must share lessons, kinds, zipf, steps, train and epochs")
    world = draw_world(seeds, *worlds.pop())
    learners = _Learners(conditions, world)
    train, test = ARMS[arm]
    stages = [(t, train) for t in range(world.training)] if train is not None else []
    stages += [(t, test) for t in range(world.training, len(world.success))]
    records = [(*learners.state(), *learners.step(t, learning)) for t, learning in stages]
    names = ("accuracy", "tokens", "lessons", "wrong", "kept", "written", "collapses")
    result = {name: np.array(values) for name, values in zip(names, zip(*records))}
    s = PlaybookSettings()
    prompt = s.system + result["tokens"] + s.task
    hit = np.zeros_like(prompt)
    hit[1:] = s.system + np.minimum(result.pop("kept")[:-1], result["tokens"][:-1])
    result["gpu_seconds"] = step_seconds(prompt, hit, result["written"], s)
    return {name: values.reshape(len(stages), len(conditions), len(seeds)) for name, values in result.items()}


def _seeds(seeds):
    """The seeds as a tuple: 0 ... n - 1, or those that are given."""
    whole = isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool)
    seeds = tuple(range(seeds)) if whole else tuple(int(seed) for seed in seeds)
    if not seeds or min(seeds) < 0:
        raise ValueError("seeds must be a whole number, at least 1, or a list of such from 0 on")
    return seeds
