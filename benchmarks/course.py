"""How fast the course is, in one table: sliders, notebooks, training, caches, each beside its goal.

    python benchmarks/course.py [--short]

Times are CPU time of one thread, but key to picture and a notebook's run, which a student waits for. A ratio compares two
things measured in turns in the same run, so it says the same on another machine. Each other file here tells more about
its part. About seven minutes; --short leaves out browser and notebooks.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import replace  # noqa: E402  (after the threads are set)

import ace as ace_benchmark  # noqa: E402
import cache_replay  # noqa: E402
import cacheblend  # noqa: E402
import cartridge_training as training  # noqa: E402
import memory_systems  # noqa: E402
import slider_latency as sliders  # noqa: E402

from labkit import ace, cartridges, tiny_transformer  # noqa: E402
from labkit.conversation import conversations  # noqa: E402


def line(what, value, unit, goal="", more_is_better=False, digits=1):
    """Print a row; `goal` is a number, or nothing where there is none."""
    met = "" if goal == "" else "yes" if (value >= goal if more_is_better else value <= goal) else "NO"
    limit = "" if goal == "" else f"{'>=' if more_is_better else '<='} {goal:g}"
    print(f"{what:<66}{value:>10.{digits}f} {unit:<12}{limit:>9}{met:>5}", flush=True)


def cpu_seconds(work):
    """CPU time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def notebooks(short):
    """Of each notebook: its heaviest panel's slider, and its whole run as nbval does it."""
    wall_in_all = 0.0
    for path in sliders.NOTEBOOKS:
        panel, name = sliders.heaviest(sliders.panels_of(path))
        alone, whole = sliders.cpu_of_a_move(panel, name)
        what = f"{path.stem}, {panel.title.split(' ·')[0]}"
        line(f"{what}: a move, simulation alone", alone, "ms")
        line(f"{what}: a move with its picture", whole, "ms")
        if short:
            continue
        if not sliders.chromium.why_not():
            floor, ours, interact = sliders.latencies(path, presses=20)
            line(f"{what}: key to picture", ours, "ms", digits=0)
            line(f"{what}: against a bare slider", ours / floor, "x", 2.5)
            line(f"{what}: faster than interact", interact / ours, "x", 3.5, more_is_better=True)
        wall, _ = sliders.run_seconds(path)
        wall_in_all += wall
        line(f"{path.stem}: restart and run all, compared by nbval", wall, "s", 15)
    if not short:
        line("all notebooks, one after the other", wall_in_all, "s", 90)


def simulations():
    """Moves of the heavy simulations, without the picture."""
    for count, goal in memory_systems.AIMS.items():
        memory_systems.ms.evaluate(memory_systems.moved(0), conversations(count))
        moves = [memory_systems.milliseconds(memory_systems.ms.evaluate, memory_systems.moved(step), conversations(count)) for step in range(1, 13)]
        line(f"six memories over {count} conversations, worst move", max(moves), "ms", goal)
    tiny_transformer.blend_study()
    line("trained transformer, 100 new sequences", cacheblend.cpu_ms(lambda i: tiny_transformer.blend_study(bridging=0.13 + 0.05 * i)), "ms", 200)
    line("learning study of a playbook, five ways, 24 worlds", ace_benchmark.milliseconds(lambda k: ace.learning_study(list(ace.WAYS), 0.7 + k / 50)), "ms", 150)


@training.one_thread
def cartridge():
    """A step against the machine's matrix products, PyTorch (where installed) and a textbook version; one whole training."""
    facts = cartridges.Facts.random()
    settings = replace(cartridges.LECTURE, size=64, batch=128)
    source = training.lessons(facts, settings)
    batches = [next(source) for _ in range(training.STEPS)]
    compared = [training.ours(facts, settings, batches), training.matrix_products(facts, settings)]
    compared += [training.pytorch(facts, settings, batches)] if training.torch else []
    own, products, *other = training.seconds_a_step(*compared)
    line("training a cartridge, a step at p 64, batch 128", 1000 * own, "ms", digits=3)
    line("  share of the machine's own speed at its matrix products", products / own, "", 0.5, more_is_better=True, digits=2)
    if other:
        line("  against PyTorch eager", other[0] / own, "x", 1.5, more_is_better=True, digits=2)
    own, plain = training.seconds_a_step(training.training(facts, cartridges.LIVE), training.textbook(facts, cartridges.LIVE), turns=5)
    line("  against a textbook version, questions and teacher included", plain / own, "x", 4, more_is_better=True, digits=2)
    line("one live cartridge, p 64, from nothing", cpu_seconds(lambda: cartridges.fit(facts, cartridges.LIVE)), "s", 0.5, digits=2)
    line("live frontier, p 8 to 256, two recipes", cpu_seconds(cartridges.frontier), "s", 5, digits=2)


def caches():
    """Prompt tokens through each prefix cache."""
    pairs = cache_replay.shared_prompts()
    for name, make in cache_replay.CACHES.items():
        line(f"prefix cache, {name}", cache_replay.tokens_per_second(make, pairs, outputs=True) / 1e6, "M tokens/s", cache_replay.AIM / 1e6, more_is_better=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="no browser, and no notebook run whole")
    chosen = parser.parse_args()
    print(f"{'what':<66}{'measured':>10} {'unit':<12}{'goal':>9}{'met':>5}")
    simulations()
    cartridge()
    caches()
    notebooks(chosen.short)


if __name__ == "__main__":
    main()
