"""Learning without changing weights, in a world where lessons can be counted: collapse, brevity, bad feedback.

Ours: the lecture notes have no such simulation, and its settings are assumptions (labkit/ace_world.py).

After a task the reflector sees success or failure, rightly with probability f, the reliability of the feedback. What
it sees as a failure may yield a lesson that was missing; where the feedback lies, a wrong one, which looks the same.
What becomes of lessons then is the way of keeping them (`WAYS`, labkit/ace_learners.py).
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from labkit.ace_learners import SEEDS, WAYS, Condition, simulate
from labkit.ace_world import LearningSettings


def learning_study(way="append", reliability=1.0, settings=LearningSettings(), arm="online", reflector=True, seeds=SEEDS):
    """How ways of keeping lessons fare over a stream of tasks, in the same worlds with the same luck.

    Parameters
    ----------
    way : str or list of str
        Keys of WAYS.
    reliability : float
        f, the chance that the reflector sees success or failure as it was.
    settings : LearningSettings
    arm : str
        A key of ARMS; the training tasks of an offline arm come first.
    reflector : bool
        A separate reflector, or the curator reads the attempt itself.
    seeds : int or sequence of int

    Returns
    -------
    DataFrame
        A row a way and step: way, step (from 0), training (bool), accuracy (mean over seeds), low, high (10th and
        90th percentile), example (the first seed alone), tokens, lessons, wrong, collapses (so far), written (tokens),
        gpu_seconds (a task).

    Raises
    ------
    ValueError
        For an unknown way or arm, or an impossible value.
    """
    ways = [way] if isinstance(way, str) else list(way)
    result = simulate([Condition(name, reliability, settings, reflector) for name in ways], arm, seeds)
    steps = len(result["accuracy"])
    low, high = np.percentile(result["accuracy"], [10, 90], axis=2)
    columns = {name: values.mean(axis=2) for name, values in result.items()}
    columns["collapses"] = columns["collapses"].cumsum(axis=0)
    columns |= {"low": low, "high": high, "example": result["accuracy"][:, :, 0]}
    order = ("accuracy", "low", "high", "example", "tokens", "lessons", "wrong", "collapses", "written", "gpu_seconds")
    return pd.DataFrame({"way": np.repeat(ways, steps), "step": np.tile(np.arange(steps), len(ways)),
                         "training": np.tile(np.arange(steps) < steps - settings.steps, len(ways)),
                         **{name: columns[name].T.ravel() for name in order}})


def final_accuracy(result):
    """(conditions, seeds) accuracy over the last tenth of the steps, where a single step may be just after a collapse."""
    return result["accuracy"][-max(1, len(result["accuracy"]) // 10) :].mean(axis=0)


def reliability_sweep(reliabilities=tuple(np.linspace(0.5, 1, 11)), ways=tuple(WAYS), settings=LearningSettings(),
                      arm="online", seeds=SEEDS):
    """Where each way ends, against the reliability of the feedback.

    Returns
    -------
    DataFrame
        way, reliability, accuracy (mean over seeds), low, high (10th and 90th percentile), above (share of the seeds
        that end above no adaptation).
    """
    conditions = [Condition(way, float(f), settings) for way in ways for f in reliabilities]
    final = final_accuracy(simulate(conditions, arm, seeds))
    low, high = np.percentile(final, [10, 90], axis=1)
    return pd.DataFrame({"way": [c.way for c in conditions], "reliability": [c.reliability for c in conditions],
                         "accuracy": final.mean(1), "low": low, "high": high, "above": (final > settings.base).mean(1)})


def break_even(sweep, base):
    """way -> the reliability at which its mean accuracy crosses `base` for good, by straight lines between points.

    0-th reliability swept if it is above throughout, NaN if it ends below even at the last.
    """
    points = {}
    for way, rows in sweep.groupby("way", sort=False):
        x, y = rows["reliability"].to_numpy(), rows["accuracy"].to_numpy() - base
        below = np.flatnonzero(y < 0)
        if not len(below):
            points[way] = x[0]
        elif below[-1] == len(x) - 1:
            points[way] = np.nan
        else:
            at = below[-1]
            points[way] = x[at] + (x[at + 1] - x[at]) * -y[at] / (y[at + 1] - y[at])
    return pd.Series(points, name="reliability")


def survival_sweep(survivals=(0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0), collapses=(0.0, 1 / 240, 1 / 60),
                   reliability=1.0, settings=LearningSettings(), seeds=SEEDS):
    """How far rewriting ends from appending, as its rewrites get better up to perfect.

    Returns
    -------
    DataFrame
        survival, collapse, rewrite, append (mean final accuracy), gap (rewrite - append), low, high (10th and 90th
        percentile of the gap over seeds: same world, same luck).
    """
    grid = [replace(settings, survival=float(s), collapse=float(c)) for c in collapses for s in survivals]
    conditions = [Condition("append", reliability, settings), *(Condition("rewrite", reliability, s) for s in grid)]
    append, *rewrite = final_accuracy(simulate(conditions, "online", seeds))
    gap = np.array(rewrite) - append
    low, high = np.percentile(gap, [10, 90], axis=1)
    return pd.DataFrame({"survival": [s.survival for s in grid], "collapse": [s.collapse for s in grid],
                         "rewrite": np.mean(rewrite, axis=1), "append": append.mean(), "gap": gap.mean(1),
                         "low": low, "high": high})


def budget_sweep(budgets=(200, 400, 800, 1_600, 3_200, 80_000), reliability=1.0, settings=LearningSettings(), seeds=SEEDS):
    """What a budget in tokens leaves of an appended playbook: budget, accuracy, low, high, tokens, lessons, wrong."""
    result = simulate([Condition("append", reliability, replace(settings, budget=b)) for b in budgets], "online", seeds)
    final = final_accuracy(result)
    low, high = np.percentile(final, [10, 90], axis=1)
    last = {name: result[name][-1].mean(axis=1) for name in ("tokens", "lessons", "wrong")}
    return pd.DataFrame({"budget": budgets, "accuracy": final.mean(1), "low": low, "high": high, **last})


# Reliability of what the reflector is told. Labels are right; whether code runs is nearly so; an answer that nobody
# checks is judged by the model itself.
FEEDBACK = {"labels": 1.0, "execution": 0.95, "own judgement": 0.70}


def learning_arms(settings=LearningSettings(), seeds=SEEDS):
    """The arms of the paper's tables in this world, for each kind of feedback.

    Returns
    -------
    DataFrame
        arm, feedback, accuracy (mean over the test stream and the seeds), low, high (10th and 90th percentile of the
        seeds), gain (points above no adaptation).
    """
    arms = {
        "no adaptation": ("online", "none", settings, True),
        "offline, one epoch, no reflector": ("offline", "append", replace(settings, epochs=1), False),
        "offline, one epoch": ("offline", "append", replace(settings, epochs=1), True),
        "offline": ("offline", "append", settings, True),
        "online": ("online", "append", settings, True),
        "offline, then online": ("offline, then online", "append", settings, True),
        "online, rewriting": ("online", "rewrite", settings, True),
    }
    rows = []
    for name, (arm, way, s, reflector) in arms.items():
        result = simulate([Condition(way, f, s, reflector) for f in FEEDBACK.values()], arm, seeds)
        mean = result["accuracy"][-s.steps :].mean(axis=0)
        low, high = np.percentile(mean, [10, 90], axis=1)
        rows += [(name, *row) for row in zip(FEEDBACK, mean.mean(1), low, high, 100 * (mean.mean(1) - s.base))]
    return pd.DataFrame(rows, columns=["arm", "feedback", "accuracy", "low", "high", "gain"])
