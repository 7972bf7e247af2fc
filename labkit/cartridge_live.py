"""The what-ifs of the cartridges: trainings to watch as they go, and the queries after which one has paid.

The trainings are generators of partial results with `step` and `steps`; the last one is the result. All of them use live
presets, whose numbers must not be compared with those of the lecture setting.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, wraps

import numpy as np
import pandas as pd

from labkit import checks
from labkit.cartridge_studies import WINDOW
from labkit.cartridge_training import LIVE, PRESETS, TrainSettings, train
from labkit.cartridge_world import (
    NOISE, Cache, Facts, accuracy, attention_share, concatenate, pick, slot_of, truncate)
from labkit.kv_cost import ANSWER_TOKENS, L11_RULES, QUESTION_TOKENS, Roofline, break_even_queries

KINDS = 5  # kinds of seed prompts in the paper
PARTS = 4  # of a document whose accuracy is looked at part by part


@dataclass(frozen=True, eq=False)
class Training:
    """A training so far.

    step, steps : done and planned.  settings, facts, cartridge : what is trained, for which document, its newest state.
    curve : DataFrame by step, columns loss (nats), accuracy (reworded questions) and strongest (mean share of attention that
        a question's strongest slot gets).
    """

    step: int
    steps: int
    settings: TrainSettings
    facts: Facts
    cartridge: Cache
    curve: pd.DataFrame

    @property
    def preset(self):
        """Name of the preset whose optimiser trains."""
        return self.settings.preset

    @property
    def accuracy(self):
        """On reworded questions, now."""
        return float(self.curve["accuracy"].iloc[-1])

    @cached_property
    def original(self):
        """Accuracy on the document's own wording, now."""
        return accuracy(self.cartridge, self.facts, paraphrase=False)

    @property
    def compression(self):
        """Facts of the document for each row of the cartridge: how many times smaller the cache is."""
        return len(self.facts) / len(self.cartridge)

    def __repr__(self):
        return (f"Training({self.preset} preset, step {self.step} of {self.steps}: {len(self.cartridge)} rows for "
                f"{len(self.facts):,} facts, {self.accuracy:.1%} of reworded questions right, "
                f"{self.original:.1%} in the document's own wording)")

    @cached_property
    def by_part(self):
        """Accuracy for each quarter of the document, on one rewording of every fact, array (4,)."""
        questions, asked = (part[:len(self.facts)] for part in self.facts.test)
        right = (self.cartridge.read(questions) @ self.facts.values.T).argmax(axis=1) == asked
        return np.array([part.mean() for part in np.array_split(right, PARTS)])


def _watch(facts, settings, seed) -> Iterator[Training]:
    curve, questions = [], facts.test[0][:WINDOW]
    for now in train(facts, settings, seed):
        curve.append((now.step, now.loss, now.accuracy, now.cartridge.attention(questions).max(axis=1).mean()))
        frame = pd.DataFrame(curve, columns=["step", "loss", "accuracy", "strongest"]).set_index("step")
        yield Training(now.step, now.steps, settings, facts, now.cartridge, frame)


def last(training):
    """A training that is watched, such as `train_live`, as a function that gives its last report: `last(train_live)(p=32)`."""
    @wraps(training)
    def run(*args, **settings):
        *_, report = training(*args, **settings)
        return report
    return run


def train_live(p=64, recipe="self-study", rephrasings=16, steps=300, noise=NOISE, kinds=0, seed=0) -> Iterator[Training]:
    """Train one cartridge for 512 facts.

    Parameters
    ----------
    p : rows of the cartridge, 1 to 512.
    recipe : "self-study", "memorise" or "hard" (reworded questions, right answers only).
    rephrasings : synthetic questions for each fact, at least 1; without effect when memorising.
    steps : of 256 questions each.
    noise : of rewordings, in training and test alike; 0 none, 0.0375 the lecture notes' (cosine 0.958).
    kinds : 0: all rewordings are of one kind. 1 to 5: they come in five kinds, and training sees so many of them.
    """
    checks.whole("kinds", kinds, 0, KINDS)
    facts = Facts.random(seed=seed, noise=noise, kinds=KINDS if kinds else 1)
    settings = replace(LIVE, size=p, recipe=recipe, rephrasings=rephrasings, steps=steps, kinds=kinds or None)
    yield from _watch(facts, settings, seed)


def initialise(init="first", key_norm=0.0, p=64, steps=300, seed=0) -> Iterator[Training]:
    """Train from another start: where the rows come from and how long their keys are.

    Parameters
    ----------
    init : "first" or "scattered" facts, "directions" (unit vectors of no fact), "normal" (standard normal numbers).
    key_norm : length given to every key at the start; 0 leaves the init's own, which is 1, or about 8 when normal.
    """
    checks.number("key_norm", key_norm, 0)
    settings = replace(LIVE, init=init, key_norm=key_norm or None, size=p, steps=steps)
    yield from _watch(Facts.random(seed=seed), settings, seed)


def read_longer(p=256, steps=300, chunk=WINDOW, seed=0) -> Iterator[Training]:
    """Train for 2,048 facts, four times the window of 512, with a teacher that sees `chunk` facts at a time."""
    yield from _watch(Facts.random(4 * WINDOW, seed), replace(LIVE, size=p, steps=steps, chunk=chunk), seed)


@dataclass(frozen=True, eq=False)
class Slots:
    """Who attends where, before and after training.

    step, steps, preset : of the training.  before, after : attention of each fact's key to each slot, (n, p).
    shared : DataFrame by slot, columns before and after: facts whose strongest slot it is.  right : bool (n,), facts answered now.
    """

    step: int
    steps: int
    preset: str
    before: np.ndarray
    after: np.ndarray
    shared: pd.DataFrame
    right: np.ndarray

    def __repr__(self):
        most = self.shared.max()
        return (f"Slots({self.preset} preset, step {self.step} of {self.steps}: {len(self.shared)} slots for "
                f"{len(self.right)} facts, {most['before']} facts in the fullest before, {most['after']} after)")


def share_slots(p=64, recipe="self-study", steps=300, n=512, seed=0) -> Iterator[Slots]:
    """Train and watch which facts come to share a slot of the cartridge."""
    facts = Facts.random(n, seed)
    settings = replace(LIVE, size=p, recipe=recipe, steps=steps)
    start = None
    for now in train(facts, settings, seed):
        start = start or now.cartridge
        shared = {name: np.bincount(slot_of(cache, facts), minlength=p)
                  for name, cache in (("before", start), ("after", now.cartridge))}
        right = (now.cartridge.read(facts.keys) @ facts.values.T).argmax(axis=1) == np.arange(n)
        yield Slots(now.step, now.steps, now.preset, start.attention(facts.keys), now.cartridge.attention(facts.keys),
                    pd.DataFrame(shared).rename_axis("slot"), right)


@dataclass(frozen=True, eq=False)
class Composed:
    """Two cartridges trained apart, and one trained on both documents.

    step, steps : of the three trainings together.  preset : of their optimiser.
    curves : DataFrame, columns training ("A", "B", "joint"), step and accuracy on its own document's questions.
    accuracy : Series by method, on the questions of both documents; a method appears when its training is done.
    attention : DataFrame, rows "A's questions", "B's questions", columns "A's slots", "B's slots": shares; None before.
    """

    step: int
    steps: int
    preset: str
    curves: pd.DataFrame
    accuracy: pd.Series
    attention: pd.DataFrame | None

    def __repr__(self):
        said = ", ".join(f"{method} {value:.1%}" for method, value in self.accuracy.items())
        return f"Composed({self.preset} preset, step {self.step} of {self.steps}: {said})"


def compose(p=64, preset="live, composable", steps=800, seed=0) -> Iterator[Composed]:
    """Train a cartridge of p rows for each of two documents of 512 facts, then one of twice the size for both.

    Parameters
    ----------
    preset : "live, composable", or "live": better single cartridges, which compose worse; or "lecture".
    steps : of each of the three trainings.
    """
    settings = replace(pick(PRESETS, preset, "preset"), size=p, steps=steps)
    facts = Facts.random(2 * WINDOW, seed)
    parts = {"A": (facts[:WINDOW], settings), "B": (facts[WINDOW:], settings), "joint": (facts, replace(settings, size=2 * p))}
    curves, results, done, attention = [], {"truncated": accuracy(truncate(facts, 2 * p), facts)}, {}, None
    for number, (name, (document, own)) in enumerate(parts.items()):
        for now in train(document, own, seed):
            curves.append((name, now.step, now.accuracy))
            if now.step == steps:
                done[name] = now.cartridge
                results, attention = _composed(facts, done, results, attention)
            frame = pd.DataFrame(curves, columns=["training", "step", "accuracy"])
            yield Composed(number * steps + now.step, 3 * steps, settings.preset, frame, pd.Series(results, name="accuracy"), attention)


def _composed(facts, done, results, attention):
    """Results so far, with what the newest finished training adds."""
    a, b, joint = done.get("A"), done.get("B"), done.get("joint")
    if joint is not None:
        return results | {"joint": accuracy(joint, facts)}, attention
    if b is None:
        return results | {"A only": accuracy(a, facts)}, attention
    both = concatenate(a, b)
    share = {f"{name}'s questions": attention_share(both, part, slice(len(a), None))
             for name, part in (("A", facts[:WINDOW]), ("B", facts[WINDOW:]))}
    share = pd.DataFrame({"A's slots": 1 - pd.Series(share), "B's slots": pd.Series(share)})
    return results | {"concatenated": accuracy(both, facts)}, share


# -- when it pays


@dataclass(frozen=True, eq=False)
class BreakEven:
    """Both accounts for one corpus.

    accounts : DataFrame, rows "L14: cached context, full GPU" and "L11: prefill only", columns before and after (GPU s a
        query), queries (to break even; 0 where the corpus fits no user's memory, so that there is nothing to compare),
        per_week (queries a week that pay the retrainings), users_without and users_with (on one GPU; L11 counts its own way,
        as many as fit).
    curve : DataFrame by corpus (tokens), a column of queries an account; nan where the corpus fits no user's memory.
    corpus, cartridge : tokens.
    """

    accounts: pd.DataFrame
    curve: pd.DataFrame
    corpus: float
    cartridge: float

    def __repr__(self):
        head = f"BreakEven(corpus of {self.corpus:,.0f} tokens, cartridge of {self.cartridge:,.0f})"
        return f"{head}\n{self.accounts.round(3).T.to_string()}"


ACCOUNTS = ("L14: cached context, full GPU", "L11: prefill only")
MOST_USERS = 10_000


def break_even(corpus=128_000, training=14_400, idle_price=1.0, updates=1.0, compression=38.6,
               users_without=MOST_USERS, users_with=MOST_USERS, model="Llama-3-8B", gpu="H100 SXM") -> BreakEven:
    """training x price / (GPU seconds of a query before - after), in the accounts of both lecture notes.

    L14 (4.6, exercise 4): the corpus' KV is in memory; a query costs its share of decoding with that many users and the
    prefill of a question. L11 (4.6, exercise 5): the corpus is prefilled for every query at 20,000 tokens/s; the
    cartridge saves all of it, and users do not count.

    Parameters
    ----------
    corpus : tokens, at least 1,000.
    training : GPU seconds of one training; 14,400 is 8 GPUs for half an hour, as the paper reports.
    idle_price : price of a training's GPU second over a serving one, 0 to 1 if GPUs idle at night.
    updates : retrainings a week, because the corpus changed.
    compression : corpus tokens for each row of the cartridge; 38.6 is the paper's average.
    users_without, users_with : users served at once with the corpus and with the cartridge; as many as fit where more are asked for.

    Raises
    ------
    ValueError
        For an impossible number, or where not even one user's cartridge fits the GPU.
    """
    checks.number("corpus", corpus, 1_000)
    checks.number("updates", updates, 0)
    checks.number("compression", compression, 1)
    checks.whole("users_without", users_without, 1)
    checks.whole("users_with", users_with, 1)
    roofline = Roofline(model, gpu)
    lengths = np.array([corpus, *np.geomspace(4_000, 1_000_000, 60)])

    def cost(tokens, most):
        """GPU seconds of a query with `tokens` in memory, and users, at most `most`; inf and 0 where not even one user fits."""
        users = np.minimum(most, roofline.max_users(tokens))
        fits, seconds = users > 0, np.full(tokens.shape, np.inf)
        decode = ANSWER_TOKENS / roofline.throughput(tokens[fits], users=users[fits])
        seconds[fits] = decode + roofline.prefill_seconds(QUESTION_TOKENS, tokens[fits])
        return seconds, users

    (before, without), (after, with_) = cost(lengths, users_without), cost(lengths / compression, users_with)
    if not with_[0]:
        raise ValueError(f"corpus={corpus:g} / compression={compression:g}: not even one user's cartridge fits; "
                         f"{gpu} holds {roofline.kv_capacity_bytes / roofline.model.kv_bytes(1):,.0f} tokens")
    prefill = lengths / L11_RULES.prefill_tokens_per_s
    queries = np.column_stack([break_even_queries(training, before, after, idle_price),
                               break_even_queries(training, prefill, np.zeros_like(prefill), idle_price)])
    table = pd.DataFrame([(before[0], after[0]), (prefill[0], 0.0)], list(ACCOUNTS), ["before", "after"])
    table["queries"] = queries[0]
    table["per_week"] = updates * table["queries"]
    table["users_without"] = [without[0], L11_RULES.max_users(model, corpus)]
    table["users_with"] = [with_[0], L11_RULES.max_users(model, corpus / compression)]
    queries[np.isinf(before + after), 0] = np.nan
    curve = pd.DataFrame(queries[1:], pd.Index(lengths[1:], name="corpus"), list(ACCOUNTS))
    return BreakEven(table, curve, corpus, corpus / compression)
