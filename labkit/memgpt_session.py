"""A session as plain data: what a user and an agent do, turn by turn, in tokens.

One entry a turn: ``{"user": 40, "reply": 60, "save": False, "hits": 170}``; hits are the tokens of
search results (0 = no search). So a session can come from `even_session`, from `random_session`,
from a JSON file or from a log of your own.
"""

import math

import numpy as np

from labkit import checks, json_list

FIELDS = ("user", "reply", "save", "hits")


def even_session(turns=600, user=40, reply=60, hits=170, p_fact=0.2, p_save=0.5, p_search=0.15):
    """A session without randomness: events of rate p come as evenly as they can.

    The k-th draw (k = 0, 1, ...) is true when floor((k + 1) p) > floor(k p). A turn may mention a
    fact, a fact may be saved at once (these draws count facts only), a turn may search.

    Parameters
    ----------
    turns : int
    user, reply, hits : int
        Tokens of a user message, a reply, the results of a search.
    p_fact, p_save, p_search : float
        Rates from 0 to 1.

    Returns
    -------
    list of dict
    """
    _check_rates(turns, user, reply, hits, p_fact, p_save, p_search)

    def due(p, k):  # 1e-9: so that a float just below a whole number does not shift an event
        return math.floor((k + 1) * p + 1e-9) > math.floor(k * p + 1e-9)

    session, facts = [], 0
    for turn in range(turns):
        fact = due(p_fact, turn)
        save = fact and due(p_save, facts)
        facts += fact
        session.append({"user": user, "reply": reply, "save": save, "hits": hits if due(p_search, turn) else 0})
    return session


def random_session(seed, turns=600, user=40, reply=60, hits=170, p_fact=0.2, p_save=0.5, p_search=0.15):
    """A session of independent draws at the rates of `even_session`.

    Each size is uniform within 50 % of its mean, rounded, at least 1. `seed` is a whole number or a
    numpy Generator. All draws of all turns are made first, so that a rate changes what is
    saved or searched and never the sizes.
    """
    _check_rates(turns, user, reply, hits, p_fact, p_save, p_search)
    if not isinstance(seed, np.random.Generator):
        checks.whole("session: seed", seed, 0)
    rng = np.random.default_rng(seed)
    fact, save, search = rng.random((3, turns)) < [[p_fact], [p_save], [p_search]]
    sizes = rng.uniform(0.5, 1.5, (3, turns)) * [[user], [reply], [hits]]
    user, reply, hits = np.maximum(1, np.rint(sizes)).astype(int)
    columns = (user, reply, fact & save, np.where(search, hits, 0))
    return [dict(zip(FIELDS, entry)) for entry in zip(*(column.tolist() for column in columns))]


def _check_rates(turns, user, reply, hits, p_fact, p_save, p_search):
    for name, value in dict(turns=turns, user=user, reply=reply, hits=hits).items():
        checks.whole(f"session: {name}", value, 1)
    for name, value in dict(p_fact=p_fact, p_save=p_save, p_search=p_search).items():
        checks.share(f"session: {name}", value)


def check_session(session):
    """Raise ValueError, with the entry's number (from 0) and field, unless this is a session."""
    if not isinstance(session, (list, tuple)):
        raise ValueError(f"a session is a list of turns; got {type(session).__name__}")
    for number, entry in enumerate(session):
        owner = f"entry {number} of the session (counted from 0)"
        if not isinstance(entry, dict):
            raise ValueError(f"{owner}: must be an object with {', '.join(FIELDS)}; got {entry!r}")
        for key in entry:
            if key not in FIELDS:
                raise ValueError(f"{owner}: unknown field {key!r}; the fields are {', '.join(FIELDS)}")
        for key in FIELDS:
            if key not in entry:
                raise ValueError(f"{owner}: {key} is missing; the fields are {', '.join(FIELDS)}")
        checks.whole(f"{owner}: user", entry["user"], 1)
        checks.whole(f"{owner}: reply", entry["reply"], 1)
        checks.whole(f"{owner}: hits", entry["hits"], 0)
        checks.flag(f"{owner}: save", entry["save"])


def load_session(path):
    """Read a session from a JSON file: a list with one object a turn.

    Raises
    ------
    ValueError
        If the file is not JSON (names the line) or an entry is malformed (names its number and field).
    """
    session = json_list.read(path, "a session is a list with one object a turn")
    check_session(session)
    return session


def save_session(session, path):
    """Write a session as JSON, one turn a line."""
    check_session(session)
    json_list.write(path, session)
