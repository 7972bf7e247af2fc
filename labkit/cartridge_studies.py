"""The studies of the cartridges: accuracy against size, and the demonstrations of L14 4.5.

Each returns a tidy DataFrame, a number a row, with the preset that made it:

    study | preset | method | size | steps | seed | measure | value

`seed` makes facts and training both new. `measure` is "paraphrase" (accuracy on reworded questions), "original" (on the
document's own wording), "attention to B" (a share) or "GFLOP" (what making the cache costs, 1e9 operations).
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from labkit import reference
from labkit.cartridge_training import INIT_STREAM, INITS, LECTURE, LIVE, fit, fit_many
from labkit.cartridge_world import (
    BASELINES, BETA, DIM, LINEAR, NOISE, Facts, accuracy, attention_share, concatenate, linear_memory, truncate)

COLUMNS = ("study", "preset", "method", "size", "steps", "seed", "measure", "value")
SIZES = (8, 16, 32, 64, 128, 256)
WINDOW = 512  # facts that fit the context window where a document is longer
UNTRAINED = "untrained"  # the preset of what is not trained


class _Rows:
    """Collects rows of one study for one seed."""

    def __init__(self, study, seed):
        self.study, self.seed, self.rows = study, seed, []

    def add(self, method, size, value, measure="paraphrase", settings=None):
        preset, steps = (settings.preset, settings.steps) if settings else (UNTRAINED, 0)
        self.rows.append((self.study, preset, method, size, steps, self.seed, measure, value))

    def test(self, method, size, memory, facts, settings=None):
        self.add(method, size, accuracy(memory, facts), settings=settings)
        self.add(method, size, accuracy(memory, facts, paraphrase=False), "original", settings)

    def train(self, methods, facts):
        """Fit and test: methods maps a name to a list of settings."""
        named = [(method, own) for method, several in methods.items() for own in several]
        for (method, own), result in zip(named, fit_many(facts, [own for _, own in named], self.seed)):
            self.add(method, own.size, result.accuracy, settings=own)

    def frame(self):
        return pd.DataFrame(self.rows, columns=COLUMNS)


def frontier(settings=LIVE, sizes=SIZES, recipes=("self-study", "memorise"), seed=0, noise=NOISE) -> pd.DataFrame:
    """Accuracy against size: trained cartridges, caches made without training, linear memories, the whole document.

    Demonstration 1 of the lecture notes. A linear memory has as many numbers as 32 rows of a cache.
    """
    facts, rows = Facts.random(seed=seed, noise=noise), _Rows("frontier", seed)
    rows.test("ICL", len(facts), facts.cache, facts)
    for how in LINEAR:
        rows.test(f"linear memory, {how}", DIM // 2, linear_memory(facts, how), facts)
    for method, (make, flops) in BASELINES.items():
        for size in sizes:
            rows.test(method, size, make(facts, size), facts)
            rows.add(method, size, flops(len(facts), size) / 1e9, "GFLOP")
    several = [replace(settings, size=size, recipe=recipe) for recipe in recipes for size in sizes]
    for own, result in zip(several, fit_many(facts, several, seed)):
        rows.test(own.recipe, own.size, result.cartridge, facts, own)
        rows.add(own.recipe, own.size, own.training_flops(len(facts)) / 1e9, "GFLOP", own)
    return rows.frame()


def ablation(settings=LECTURE, seed=0) -> pd.DataFrame:
    """What matters for the cartridge of 64 rows: steps (x 1/3, 1, 8/3), labels instead of a teacher, the init.

    Demonstration 2 of the lecture notes.
    """
    facts, rows = Facts.random(seed=seed), _Rows("ablation", seed)
    lengths = settings.steps // 3, settings.steps, settings.steps * 8 // 3
    rows.train({
        "self-study": [replace(settings, steps=steps) for steps in lengths],
        "hard": [replace(settings, recipe="hard", size=size) for size in (settings.size, settings.size // 2)],
        "self-study, normal init": [replace(settings, init="normal")],
    }, facts)
    return rows.frame()


def longer(settings=LECTURE, seed=0, n=4 * WINDOW, size=256) -> pd.DataFrame:
    """A document of four windows: the window alone, and cartridges whose teacher sees a window or the whole document.

    Demonstration 3 of the lecture notes.
    """
    facts, rows = Facts.random(n, seed), _Rows("longer", seed)
    rows.add("truncated", WINDOW, accuracy(truncate(facts, WINDOW), facts))
    chunked, whole = replace(settings, size=size, chunk=WINDOW), replace(settings, size=size, chunk=n)
    rows.train({
        "chunked teacher": [chunked, replace(chunked, steps=2 * settings.steps)],
        "whole-document teacher": [whole],
    }, facts)
    return rows.frame()


def composition(settings=LECTURE, seed=0, n=2 * WINDOW) -> pd.DataFrame:
    """Two documents, a cartridge each: alone, one after the other, and against one trained on both.

    Each of the two is trained with its own values as vocabulary; everything is asked all questions over all values.
    Demonstration 4 of the lecture notes.
    """
    facts, rows = Facts.random(n, seed), _Rows("composition", seed)
    first, second = facts[:n // 2], facts[n // 2:]
    a, b = (fit(part, settings, seed).cartridge for part in (first, second))
    both, joint = concatenate(a, b), replace(settings, size=2 * settings.size)
    rows.add("truncated", len(both), accuracy(truncate(facts, len(both)), facts))
    rows.add("A only", len(a), accuracy(a, facts), settings=settings)
    rows.add("concatenated", len(both), accuracy(both, facts), settings=settings)
    rows.train({"joint": [joint]}, facts)
    rows.add("concatenated", len(both), attention_share(both, first, slice(len(a), None)), "attention to B", settings)
    return rows.frame()


def key_norms(settings=LECTURE, seed=0, norms=(0.5, 1, 2, 4, 8)) -> pd.DataFrame:
    """Accuracy against the keys' length at the start, from random directions: what makes a normal init fail."""
    facts, rows = Facts.random(seed=seed), _Rows("key norm", seed)
    rows.train({f"key norm {norm:g}": [replace(settings, init="directions", key_norm=norm)] for norm in norms}, facts)
    return rows.frame()


def synthetic_questions(settings=LIVE, seed=0, counts=(1, 4, 16, 64), recipes=("hard", "self-study")) -> pd.DataFrame:
    """Accuracy against the number of rewordings of each fact that are drawn for training."""
    facts, rows = Facts.random(seed=seed), _Rows("rephrasings", seed)
    rows.train({f"{recipe}, {count} a fact": [replace(settings, recipe=recipe, rephrasings=count)]
                for recipe in recipes for count in counts}, facts)
    return rows.frame()


def question_kinds(settings=LIVE, seed=0, kinds=5) -> pd.DataFrame:
    """Accuracy on all kinds of rewordings against how many of them training saw: the toy's diverse seed prompts."""
    facts, rows = Facts.random(seed=seed, kinds=kinds), _Rows("kinds", seed)
    rows.train({f"{seen} of {kinds} kinds": [replace(settings, kinds=seen)] for seen in range(1, kinds + 1)}, facts)
    return rows.frame()


def logit_sizes(n=512, seed=0) -> pd.Series:
    """Attention logits 20 q . k at the start of a training (L14 exercise 6).

    own : of a reworded question with its own key, mean.  others_sd : with the other facts' keys, standard deviation.
    normal_norm : mean length of 64 standard normal keys.  normal_sd : of the logits with those keys.
    """
    facts = Facts.random(n, seed)
    questions, asked = facts.test
    logits = BETA * questions @ facts.keys.T
    own = np.arange(n) == asked[:, None]
    normal = INITS["normal"](facts, DIM, np.random.default_rng([seed, INIT_STREAM]))[0]
    return pd.Series({"own": logits[own].mean(), "others_sd": logits[~own].std(),
                      "normal_norm": np.linalg.norm(normal, axis=1).mean(), "normal_sd": (BETA * questions @ normal.T).std()})


DEMOS = {"frontier": frontier, "ablation": ablation, "longer": longer, "composition": composition}


def stored_results() -> pd.DataFrame:
    """The studies above at their presets, seeds 0, 1 and 2: data/cartridge_results.csv, made by tools/make_cartridge_results.py."""
    return pd.read_csv(reference.data_folder() / "cartridge_results.csv")


def stored_means(study, preset="lecture", measure="paraphrase") -> pd.Series:
    """Mean over the seeds of one study at one preset, untrained rows included: Series by (method, size, steps).

    Raises
    ------
    ValueError
        Where nothing of the kind is stored.
    """
    table = stored_results()
    rows = table[(table["study"] == study) & table["preset"].isin([preset, UNTRAINED]) & (table["measure"] == measure)]
    if preset not in set(rows["preset"]):
        kept = table[["study", "preset"]].drop_duplicates().query("preset != @UNTRAINED")
        raise ValueError(f"nothing is stored for study {study!r}, preset {preset!r}, measure {measure!r}; "
                         f"there are {', '.join(f'{a} ({b})' for a, b in kept.itertuples(index=False))}")
    return rows.groupby(["method", "size", "steps"])["value"].mean()
