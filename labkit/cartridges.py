"""Cartridges: a small KV cache for a document, trained by gradient descent, in one place (L14 section 4, L11 section 4).

* `labkit.cartridge_world`: facts, questions, caches; what answers without training.
* `labkit.cartridge_gradient`: one step of training, by hand.
* `labkit.cartridge_training`: recipes, the presets `LECTURE` and `LIVE`, and training itself.
* `labkit.cartridge_studies`: accuracy against size and the demonstrations, as tables.
* `labkit.cartridge_live`: the what-ifs that train before one's eyes, and when training pays.

    facts = Facts.random(512, seed=0)
    for progress in train(facts, LIVE):
        print(progress.step, progress.accuracy)
"""

from labkit.cartridge_live import (
    BreakEven, Composed, Slots, Training, break_even, compose, initialise, last, read_longer, share_slots, train_live)
from labkit.cartridge_studies import (
    COLUMNS, DEMOS, SIZES, WINDOW, ablation, composition, frontier, key_norms, logit_sizes, longer, question_kinds, stored_means,
    stored_results, synthetic_questions)
from labkit.cartridge_training import (
    COMPOSABLE, INITS, LECTURE, LIVE, PRESETS, RECIPES, SCHEDULES, Progress, TrainSettings, fit, fit_many, train)
from labkit.cartridge_world import (
    BASELINES, BETA, DIM, LINEAR, NOISE, READOUT, Cache, Facts, LinearMemory, accuracy, attention_share, concatenate, drop,
    linear_memory, merge, slot_of, truncate)

__all__ = [
    "BASELINES", "BETA", "COLUMNS", "COMPOSABLE", "DEMOS", "DIM", "INITS", "LECTURE", "LINEAR", "LIVE", "NOISE", "PRESETS",
    "READOUT", "RECIPES", "SCHEDULES", "SIZES", "WINDOW", "BreakEven", "Cache", "Composed", "Facts", "LinearMemory",
    "Progress", "Slots", "TrainSettings", "Training", "ablation", "accuracy", "attention_share", "break_even", "compose",
    "composition", "concatenate", "drop", "fit", "fit_many", "frontier", "initialise", "key_norms", "last", "linear_memory",
    "logit_sizes", "longer", "merge", "question_kinds", "read_longer", "share_slots", "slot_of", "stored_means",
    "stored_results", "synthetic_questions", "train", "train_live", "truncate"]
