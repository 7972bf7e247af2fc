"""CPU time of a slider move of the ACE studies, without the picture.

Run ``python benchmarks/ace.py``. One core; fixed seeds; median of 15 moves, each to another value.
Aim: the learning study under 150 ms, the serving study under 30 ms.
"""

import time

import numpy as np

from labkit import ace

MOVES = 15


def milliseconds(move):
    """Median CPU time of `move(k)`; the first call, which draws the world, is left out."""
    move(0)
    seconds = []
    for k in range(1, MOVES + 1):
        begin = time.process_time()
        move(k)
        seconds.append(time.process_time() - begin)
    return 1e3 * np.median(seconds)


def measure(name, move, aim):
    """Print a move's time beside its aim."""
    median = milliseconds(move)
    print(f"{name:58}{median:8.1f} ms{'' if median <= aim else f'   above the aim of {aim} ms'}")


def grown(bullets):
    book = ace.Playbook.empty()
    words = [f"word{n % 97} word{n % 89} word{n % 83} word{n}" for n in range(bullets)]
    return book.merge(ace.Delta([{"type": "ADD", "section": "OTHERS", "content": text} for text in words]))


def main():
    ways = list(ace.WAYS)
    measure("learning study, 5 ways x 24 seeds x 300 steps", lambda k: ace.learning_study(ways, 0.7 + k / 50), 150)
    pruned = ace.LearningSettings(prune=True)
    measure("learning study, pruned by counters", lambda k: ace.learning_study(ways, 0.7 + k / 50, pruned), 150)
    small = [ace.LearningSettings(budget=200 + 40 * k) for k in range(MOVES + 1)]
    measure("learning study, small budget", lambda k: ace.learning_study(ways, 0.9, small[k]), 150)
    measure("survival sweep, 7 survivals x 24 seeds", lambda k: ace.survival_sweep(collapses=(k / 600,)), 150)
    measure("survival sweep, 7 survivals x 3 collapses x 24 seeds", lambda k: ace.survival_sweep(reliability=1 - k / 100), 500)
    measure("reliability sweep, 11 reliabilities x 5 ways x 24 seeds", lambda k: ace.reliability_sweep(seeds=range(k, k + 24)), 2_000)
    for mode in ace.MODES:
        s = ace.PlaybookSettings(mode=mode)
        measure(f"serving study, {mode}", lambda k: ace.serve_playbook(ace.even_trace(touched=k, drop_every=25), s), 30)
    for bullets in (100, 500):
        book = grown(bullets)
        measure(f"de-duplicate {bullets} bullets", lambda k: book.deduplicate(0.8 + k / 100), 150)
        measure(f"bring {bullets} bullets under a budget", lambda k: book.within(400 + 50 * k), 150)
        measure(f"parse and render {bullets} bullets", lambda k: ace.Playbook.parse(book.render()), 30)


if __name__ == "__main__":
    main()
