"""CPU of a slider move of the trained model's panel: 100 sequences, budget 200 ms.

A move of the fraction or the rule answers again from KV that is kept; a move of the share reads new documents, too.
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")     # as `make lab` has it, and before numpy is loaded

from labkit.tiny_transformer import blend_study  # noqa: E402

BUDGET_MS = 200


def cpu_ms(move, repeats=5):
    """Median CPU milliseconds of `move(i)`."""
    taken = []
    for i in range(repeats):
        started = time.process_time()
        move(i)
        taken.append(1e3 * (time.process_time() - started))
    return sorted(taken)[repeats // 2]


def main():
    blend_study()
    moves = {"fraction": lambda i: blend_study(0.05 * i), "rule": lambda i: blend_study(0.3 + 0.01 * i, rule="first-k"),
             "share": lambda i: blend_study(bridging=0.13 + 0.05 * i)}
    for name, move in moves.items():
        taken = cpu_ms(move)
        print(f"{name:10}{taken:8.0f} ms CPU of {BUDGET_MS}")
        assert taken < BUDGET_MS, f"a move of the {name} is too slow"


if __name__ == "__main__":
    main()
