"""Make data/cartridge_results.csv: the studies of `labkit.cartridges` at their presets, three seeds each.

    python tools/make_cartridge_results.py [path]

About five minutes of one core. Columns: see `labkit.cartridge_studies`; `preset` names the setting of a trained row
("lecture", "live", "live, composable"), "untrained" a row that needs no training.
"""

import pathlib
import sys
import time

import pandas as pd

from labkit import cartridges as lab

SEEDS = (0, 1, 2)
RUNS = [(study, preset) for preset in (lab.LECTURE, lab.LIVE) for study in lab.DEMOS.values()] + [
    (lab.composition, lab.COMPOSABLE), (lab.key_norms, lab.LECTURE), (lab.key_norms, lab.LIVE),
    (lab.synthetic_questions, lab.LIVE), (lab.question_kinds, lab.LIVE)]


def main(path):
    frames = []
    for study, settings in RUNS:
        started = time.process_time()
        frames += [study(settings, seed=seed) for seed in SEEDS]
        print(f"{study.__name__}, {settings.preset}: {time.process_time() - started:.1f} s CPU", flush=True)
    # What is not trained is the same for both presets: once is enough.
    table = pd.concat(frames, ignore_index=True).drop_duplicates(["study", "preset", "method", "size", "steps", "seed", "measure"])
    table.to_csv(path, index=False, float_format="%.4f", lineterminator="\n")
    print(f"{len(table)} rows in {path}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if sys.argv[1:] else pathlib.Path(__file__).parents[1] / "data" / "cartridge_results.csv")
