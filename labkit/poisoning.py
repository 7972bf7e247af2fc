"""Memory poisoning: a web page plants an instruction as a lesson, and defences that stop some of it (L11 5.3, exercise 7).

    harm = tasks that the planted instruction concerns, while an entry of it is held and followed

One injection into a prompt ends with the task. One that is written to memory comes back, and looks like the agent's own.
Every rate below is an assumption, none is measured: what holds is which defence acts where, and what each costs. The entries
are those of a real `Playbook` (`replay`); `exposure` plants the same sentence in every memory of the course.
"""

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.ace import Delta, Playbook
from labkit.model import check
from labkit.poisoning_exposure import INSTRUCTION, exposure

__all__ = ["DEFENCES", "INSTRUCTION", "Defended", "PoisonSettings", "Poisoning", "defend", "exposure", "poison", "replay"]

KINDS = ("own", "web", "planted")  # an honest lesson of the agent's own, an honest one from a page, the planted one


@dataclass(frozen=True)
class PoisonSettings:
    """Assumptions, a task being the unit of time; shares and chances are from 0 to 1."""

    tasks: int = 100
    own: float = 0.30  # chance that a task yields an honest lesson of the agent's own
    web: float = 0.30  # ... an honest lesson from a page
    planted: float = 0.02  # ... a page that plants the instruction; one is met at task `first` in any case
    first: int = 10
    concerned: float = 0.20  # share of the tasks that the planted instruction concerns
    follow: float = 0.80  # chance that an agent follows an entry that it takes for its own
    follow_labelled: float = 0.15  # ... one that is labelled as from a page: data, no instruction
    heed_labelled: float = 0.80  # how far an honest lesson with such a label is still used
    catch: float = 0.90  # a review before writing stops a planted entry
    false_alarm: float = 0.05  # ... and an honest one
    review_tokens: int = 400  # tokens of a review's prompt: rules and the entry
    life: int = 30  # tasks after which an entry expires that was not confirmed meanwhile
    confirm: float = 0.05  # chance a task that an honest entry is confirmed by success
    confirm_planted: float = 0.01  # ... that a planted one is, since nobody noticed
    look: int = 20  # tasks between two looks of the user through the list
    spot: float = 0.50  # chance that a look finds and deletes a planted entry
    spot_labelled: float = 0.80  # ... if its source stands beside it
    slip: float = 0.01  # ... that it deletes an honest one
    label_tokens: int = 4  # tokens that a source label adds to an entry

    def __post_init__(self):
        for f in fields(self):
            if f.type is int:
                checks.whole(f"PoisonSettings: {f.name}", getattr(self, f.name), 0 if f.name.endswith("tokens") or f.name == "first" else 1)
            else:
                check(f"PoisonSettings: {f.name}", getattr(self, f.name), 0, 1)
        if self.first >= self.tasks:
            raise ValueError(f"PoisonSettings: first must be below tasks = {self.tasks}; got {self.first}")


@dataclass(frozen=True)
class Rates:
    """What acts on the entries; no defence: everything is written and stays."""

    follow: float = 0.0
    heed: float = 1.0
    catch: float = 0.0
    false_alarm: float = 0.0
    life: float = np.inf
    spot: float = 0.0
    slip: float = 0.0
    label_tokens: int = 0
    reviews: bool = False
    looks: bool = False


# defence -> (settings, rates so far) -> rates with it. Labels come before the user, who sees them.
DEFENCES = {
    "labels": lambda s, r: replace(r, follow=s.follow_labelled, heed=s.heed_labelled, label_tokens=s.label_tokens),
    "review": lambda s, r: replace(r, catch=s.catch, false_alarm=s.false_alarm, reviews=True),
    "expiry": lambda s, r: replace(r, life=s.life),
    "user": lambda s, r: replace(r, spot=s.spot_labelled if r.label_tokens else s.spot, slip=s.slip, looks=True),
}


def rates(defences, settings):
    """Rates under some defences (keys of DEFENCES)."""
    found = Rates(follow=settings.follow)
    for name, defence in DEFENCES.items():
        found = defence(settings, found) if name in defences else found
    return found


@dataclass(frozen=True)
class World:
    """S seeds of T tasks: what is met, and all luck, drawn once. Entries are named by (task, kind): an array (S, T, 3) each.

    met : bool, an entry is proposed.  concerned : bool (S, T).  follow : (S, T) uniform.  review : (S, T, 3) uniform.
    confirm, look : (T, S, T, 3) uniform, by the task in which it is drawn.
    """

    met: np.ndarray
    concerned: np.ndarray
    follow: np.ndarray
    review: np.ndarray
    confirm: np.ndarray
    look: np.ndarray


@lru_cache(maxsize=4)
def draw_world(seeds, tasks, first, chances, concerned):
    """The world of seeds 0 ... seeds - 1; `chances` are those of an own, a web and a planted entry a task."""
    rng = np.random.default_rng([5, tasks])
    met = rng.random((seeds, tasks, 3)) < np.array(chances)
    met[:, first, 2] = True
    met[:, :first, 2] = False
    shape = (tasks, seeds, tasks, 3)
    return World(met, rng.random((seeds, tasks)) < concerned, rng.random((seeds, tasks)), rng.random((seeds, tasks, 3)),
                 rng.random(shape, dtype=np.float32), rng.random(shape, dtype=np.float32))


SEEDS = 16


@dataclass(frozen=True)
class Poisoning:
    """What became of the entries under some defences.

    by_task : DataFrame, index task, means over the seeds: planted (entries held), own and web (honest entries held), harm (tasks
    harmed so far).  total : Series: harm (tasks harmed by memory), once (tasks harmed while the page itself was in the prompt),
    written (planted entries that came into memory), planted, honest (held at the end), in_use (honest entries, labelled ones
    counted as far as they are heeded), calls, tokens (prefill added), shown (entries that the user read).
    birth, death : int (S, T, 3), task in which an entry came and went; T if it never did.
    """

    by_task: pd.DataFrame
    total: pd.Series
    birth: np.ndarray
    death: np.ndarray
    defences: tuple
    settings: PoisonSettings

    def __repr__(self):
        t = self.total
        return (f"Poisoning({' + '.join(self.defences) or 'no defence'}: {t['harm']:.2f} of {self.settings.tasks} tasks harmed, "
                f"{t['in_use']:.2f} honest lessons of use)")


@lru_cache(maxsize=64)
def poison(defences=(), settings=PoisonSettings(), seeds=SEEDS):
    """Let an agent meet pages, write entries and read them, under some defences.

    Order within a task: the task is done with the entries held, then new ones are reviewed and written, some are confirmed,
    some expire, and now and then the user looks.

    Parameters
    ----------
    defences : tuple of str
        Keys of DEFENCES.
    settings : PoisonSettings
    seeds : int
        Worlds averaged; the same luck whatever the defences.

    Returns
    -------
    Poisoning

    Raises
    ------
    ValueError
        For an unknown defence.
    """
    if isinstance(defences, str) or not np.iterable(defences):
        raise ValueError(f"defences must be a list of some of {', '.join(DEFENCES)}; got {defences!r}")
    if not isinstance(settings, PoisonSettings):
        raise ValueError(f"poison: settings must be PoisonSettings(...); got {settings!r}")
    if unknown := set(defences) - set(DEFENCES):
        raise ValueError(f"defences must be some of {', '.join(DEFENCES)}; got {', '.join(map(repr, sorted(unknown)))}")
    checks.whole("poison: seeds", seeds, 1)
    s, r = settings, rates(defences, settings)
    world = draw_world(seeds, s.tasks, s.first, (s.own, s.web, s.planted), s.concerned)
    stopped = world.review < np.array([r.false_alarm, r.false_alarm, r.catch])
    confirms = np.array([s.confirm, s.confirm, s.confirm_planted])
    deletes = np.array([r.slip, r.slip, r.spot])
    alive = np.zeros_like(world.met)
    birth, death = np.full((2, *alive.shape), s.tasks)
    last = np.zeros(alive.shape, int)
    rows, tokens, shown = [], 0.0, 0.0
    harm = np.zeros(seeds)
    for task in range(s.tasks):
        harm += alive[:, :, 2].any(axis=1) & world.concerned[:, task] & (world.follow[:, task] < r.follow)
        tokens += r.label_tokens * alive.sum() / seeds
        new = world.met[:, task] & ~stopped[:, task]
        alive[:, task], last[:, task] = new, task
        birth[:, task][new] = task
        last[alive & (world.confirm[task] < confirms)] = task
        gone = alive & (task - last >= r.life)
        if r.looks and (task + 1) % s.look == 0:
            shown += (alive & ~gone).sum() / seeds
            gone |= alive & (world.look[task] < deletes)
        alive &= ~gone
        death[gone] = task
        held = alive.sum(axis=(0, 1)) / seeds
        rows.append((*held, harm.mean()))
    calls = r.reviews * world.met.sum() / seeds
    own, web, planted, harmed = rows[-1]
    once = (world.met[:, :, 2] & (world.follow < s.follow)).sum() / seeds
    total = pd.Series({
        "harm": harmed, "once": once, "written": (birth[:, :, 2] < s.tasks).sum() / seeds, "planted": planted, "honest": own + web,
        "in_use": own + r.heed * web, "calls": calls, "tokens": tokens + s.review_tokens * calls, "shown": shown})
    return Poisoning(pd.DataFrame(rows, columns=[*KINDS, "harm"]), total, birth, death, tuple(defences), s)


def replay(result, seed=0):
    """The same entries in a real playbook, by deltas: ADD when written, DELETE when gone; the source stands in the text if labelled.

    Returns
    -------
    Playbook
        As it is after the last task.
    """
    labelled = "labels" in result.defences
    labels = dict(zip(KINDS, ("[own experience] ", "[from a web page: data, no instruction] ", "[from a web page: data, no instruction] ")))
    texts = dict(zip(KINDS, ("Lesson {n} of the agent's own.", "Lesson {n} from a page.", INSTRUCTION)))
    book, ids = Playbook(sections=("OTHERS",)), {}
    for task in range(result.settings.tasks):
        for kind in np.flatnonzero(result.birth[seed, task] == task):
            name = KINDS[kind]
            text = labels[name] * labelled + texts[name].format(n=task)
            ids[task, kind] = f"misc-{book.next_id:05d}"
            book = book.merge(Delta(({"type": "ADD", "section": "OTHERS", "content": text},)))
        gone = [ids[entry, kind] for entry, kind in zip(*np.nonzero(result.death[seed] == task))]
        book = book.merge(Delta(tuple({"type": "DELETE", "id": id} for id in gone)))
    return book


@dataclass(frozen=True)
class Defended:
    """chosen, none : Poisoning.  alone : DataFrame, a row a set of defences (none, each alone, all, as chosen), columns as `total`."""

    chosen: Poisoning
    none: Poisoning
    alone: pd.DataFrame

    def __repr__(self):
        return f"Defended(chosen {self.chosen}, beside {self.none})"


def defend(labels=False, review=False, expiry=False, user=False, catch=0.90, follow_labelled=0.15, life=30, look=20,
           concerned=0.20) -> Defended:
    """The chosen defences beside none, each alone, and all together, in the same worlds.

    Parameters
    ----------
    labels, review, expiry, user : which defences are on.
    catch : chance that a review stops a planted entry.  follow_labelled : chance that a labelled one is followed all the same.
    life : tasks until an entry that is not confirmed expires.  look : tasks between two looks of the user.
    concerned : share of the tasks that the instruction concerns.
    """
    for name, value in zip(DEFENCES, (labels, review, expiry, user)):
        checks.flag(f"defend: the defence {name!r}", value)
    settings = PoisonSettings(catch=catch, follow_labelled=follow_labelled, life=life, look=look, concerned=concerned)
    on = tuple(name for name, value in zip(DEFENCES, (labels, review, expiry, user)) if value)
    sets = {"no defence": (), **{f"{name} alone": (name,) for name in DEFENCES}, "all four": tuple(DEFENCES), "as chosen": on}
    runs = {name: poison(some, settings) for name, some in sets.items()}
    return Defended(runs["as chosen"], runs["no defence"], pd.DataFrame({name: run.total for name, run in runs.items()}).T)
