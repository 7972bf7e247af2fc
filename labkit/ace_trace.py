"""The evolution of a playbook as plain data: what each step adds, touches and drops.

One entry a step: ``{"add": True, "touch": [2, 7], "drop": None}``. `touch` holds positions in the playbook that the
step's prompt showed, `drop` positions in the playbook after the step's bullet was added. So a trace can come from
`even_trace`, from `random_trace`, from a JSON file, or from a run of your own (`trace_of`).
"""

import math

import numpy as np

from labkit import checks, json_list

FIELDS = ("add", "touch", "drop")
EVEN_SEED = 42  # a fixed stream; streams differ by about 1 point of reuse with counters, this one gives 31.4 %


def even_trace(steps=300, p_add=0.6, touched=3, drop=0.10, drop_every=0):
    """A trace whose bullets come as evenly as they can; its positions come from a fixed generator.

    Step k = 0, 1, ... adds one when floor((k + 1) p) > floor(k p).

    Parameters
    ----------
    steps : int
    p_add : float
        Bullets a step, 0 to 1.
    touched : int
        Bullets a step whose counters change: distinct and uniform in the playbook shown (all, if it has fewer).
    drop : float
        Share of the bullets that a de-duplication drops: round(drop x bullets), distinct and uniform after the add.
    drop_every : int
        De-duplicate after steps drop_every, 2 drop_every, ...; 0 = never.

    Returns
    -------
    list of dict
    """
    _check_rates(steps, p_add, touched, drop, drop_every)
    # 1e-9: a product just below a whole number must not shift a bullet
    adds = [math.floor((k + 1) * p_add + 1e-9) > math.floor(k * p_add + 1e-9) for k in range(steps)]
    return _trace(adds, np.random.default_rng(EVEN_SEED), touched, drop, drop_every)


def random_trace(seed, steps=300, p_add=0.6, touched=3, drop=0.10, drop_every=0):
    """A trace whose bullets come by independent draws at rate p_add. The rest as in `even_trace`.

    `seed` is a whole number or a numpy Generator. Each use has its own stream, so that a rate that is changed
    changes nothing else, and one more bullet touched or dropped comes on top of the same ones.
    """
    _check_rates(steps, p_add, touched, drop, drop_every)
    if not isinstance(seed, np.random.Generator):
        checks.whole("trace: seed", seed, 0)
    rng = np.random.default_rng(seed)
    adds = (rng.spawn(1)[0].random(steps) < p_add).tolist()
    return _trace(adds, rng, touched, drop, drop_every)


def _trace(adds, rng, touched, drop, drop_every):
    touch_rng, drop_rng = rng.spawn(2)
    touch_draws = touch_rng.random((touched, len(adds)))
    bullets, trace = 0, []
    for step, add in enumerate(adds):
        touch = _pick(touch_draws[:, step], bullets)
        bullets += add
        gone = None
        if drop_every and (step + 1) % drop_every == 0:
            gone = _pick(drop_rng.random(len(adds))[: round(drop * bullets)], bullets)
            bullets -= len(gone)
        trace.append({"add": add, "touch": touch, "drop": gone})
    return trace


def _pick(draws, bullets):
    """Distinct positions, each uniform among those left: one a draw, all if there are fewer."""
    left = list(range(bullets))
    return [left.pop(int(draw * len(left))) for draw in draws[:bullets]]


def trace_of(playbooks):
    """The trace that a series of playbooks amounts to: p0 shown at step 0, p1 after it and shown at step 1, ...

    Positions count in the order of the ids, which is the order of arrival: a prompt that only appends.

    Parameters
    ----------
    playbooks : list of labkit.ace.Playbook

    Raises
    ------
    ValueError
        If a step added more than one bullet: a trace holds at most one a step.
    """
    trace = []
    for step, (before, after) in enumerate(zip(playbooks, playbooks[1:])):
        old, new = ({bullet.number: bullet for bullet in book.bullets} for book in (before, after))
        shown, added = sorted(old), sorted(set(new) - set(old))
        if len(added) > 1:
            raise ValueError(f"step {step} (counted from 0) adds {len(added)} bullets; a trace holds at most one a step")
        gone = [at for at, number in enumerate(shown + added) if number not in new]
        touch = [at for at, number in enumerate(shown) if number in new and new[number] != old[number]]
        trace.append({"add": bool(added), "touch": touch, "drop": gone or None})
    return trace


def load_trace(path):
    """Read a trace from a JSON file: a list with one object a step.

    Raises
    ------
    ValueError
        If the file is not JSON (names the line) or an entry is malformed (names its number and field).
    """
    trace = json_list.read(path, "a trace is a list with one object a step")
    check_trace(trace)
    return trace


def save_trace(trace, path):
    """Write a trace as JSON, one step a line."""
    check_trace(trace)
    json_list.write(path, trace)


def check_trace(trace):
    """Raise ValueError, with the entry's number (from 0) and field, unless this is a trace."""
    if not isinstance(trace, (list, tuple)):
        raise ValueError(f"a trace is a list of steps; got {type(trace).__name__}")
    bullets = 0
    for number, entry in enumerate(trace):
        owner = f"step {number} of the trace (counted from 0)"
        if not isinstance(entry, dict) or set(entry) != set(FIELDS):
            raise ValueError(f"{owner}: must be an object with exactly {', '.join(FIELDS)}; got {entry!r}")
        checks.flag(f"{owner}: add", entry["add"])
        _check_positions(f"{owner}: touch", entry["touch"], bullets, "that the prompt showed")
        bullets += bool(entry["add"])
        if entry["drop"] is not None:
            _check_positions(f"{owner}: drop", entry["drop"], bullets, "there were after the add")
            bullets -= len(entry["drop"])


def _check_positions(owner, positions, bullets, which):
    if not isinstance(positions, (list, tuple)):
        raise ValueError(f"{owner} must be a list of positions; got {positions!r}")
    for position in positions:
        checks.whole(f"{owner}: each position", position, 0)
        if position >= bullets:
            raise ValueError(f"{owner}: position {position} is outside of the {bullets} bullets {which}")
    if len(set(positions)) < len(positions):
        raise ValueError(f"{owner}: positions must be distinct; got {positions!r}")


def _check_rates(steps, p_add, touched, drop, drop_every):
    for name, value in dict(steps=steps, touched=touched, drop_every=drop_every).items():
        checks.whole(f"trace: {name}", value, 0)
    for name, value in dict(p_add=p_add, drop=drop).items():
        checks.share(f"trace: {name}", value)
