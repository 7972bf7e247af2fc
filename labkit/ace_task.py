"""One task with a playbook: generate, reflect, curate, merge (ACE section 3, L14 section 5.2).

    task -> generator -> attempt -> reflector (several rounds) -> curator -> delta -> merge -> playbook

The roles are plain functions, so a student's rule, a scripted answer or a call of a model can stand in for each.
"""

from dataclasses import dataclass

from labkit import checks
from labkit.ace_delta import Delta
from labkit.ace_playbook import BUDGET, THRESHOLD, Playbook
from labkit.ace_text import count_tokens


@dataclass(frozen=True)
class Attempt:
    """What a generator hands back: its answer or trajectory, and the tags of the bullets that it used."""

    answer: object
    tags: dict | tuple = ()  # id -> helpful, harmful, neutral


@dataclass(frozen=True)
class TaskStep:
    """One task's way through the roles.

    Attributes
    ----------
    shown, playbook : Playbook
        What the generator read, and what it is afterwards.
    attempt : Attempt
    feedback : object
        Of the judge; None without one.
    reflections : tuple
        One a round.
    delta : Delta
    problems : tuple of Problem
        What of the roles' answers could not be read or done.
    """

    shown: Playbook
    attempt: Attempt
    feedback: object
    reflections: tuple
    delta: Delta
    playbook: Playbook
    problems: tuple


def never(book, budget, clean, size):
    return book


def always(book, budget, clean, size):
    return clean(book)


def lazy(book, budget, clean, size):
    return clean(book) if size(book) > budget else book


# When to de-duplicate: after every update, or only when the playbook is over its budget.
REFINE = {"lazy": lazy, "always": always, "never": never}


def run_task(generator, reflector, curator, playbook, task, judge=None, rounds=1, budget=BUDGET, refine="lazy",
             threshold=THRESHOLD, embed=None, counters=True, count=count_tokens):
    """Do one task and learn from it.

    Parameters
    ----------
    generator : callable
        (task, playbook) -> Attempt, or anything else as an answer without tags.
    reflector : callable or None
        (task, attempt, feedback, playbook, previous reflection) -> reflection. Of a dict or JSON with bullet_tags
        the last round's tags count, and outvote the generator's for the same bullet. None: the curator reads the
        attempt itself, as in the paper's ablation.
    curator : callable
        (task, reflection, playbook) -> Delta, dict or JSON with operations, or None for nothing to learn.
    playbook : Playbook
    task : object
    judge : callable, optional
        (task, attempt) -> feedback: a label or the result of an execution.
    rounds : int
        Rounds of reflection, at least 1; it stops early where a round changes nothing. The paper has up to 5.
    budget : int
        Tokens that the playbook never exceeds afterwards; `counters` and `count` say how its text is measured.
    refine : str
        When to de-duplicate: a key of REFINE. What is still too much goes by `Playbook.within`.
    threshold, embed
        Of `Playbook.deduplicate`.

    Returns
    -------
    TaskStep

    Raises
    ------
    ValueError
        If rounds is below 1 or refine unknown.
    """
    checks.whole("run_task: rounds", rounds, 1)
    if refine not in REFINE:
        raise ValueError(f"run_task: refine must be one of {', '.join(REFINE)}; got {refine!r}")
    attempt = generator(task, playbook)
    attempt = attempt if isinstance(attempt, Attempt) else Attempt(attempt)
    feedback = judge(task, attempt) if judge else None
    reflections = []
    while reflector and len(reflections) < rounds:
        previous = reflections[-1] if reflections else None
        reflections.append(reflector(task, attempt, feedback, playbook, previous))
        if len(reflections) > 1 and reflections[-1] == previous:
            break

    votes = Delta.parse({"bullet_tags": [{"id": id, "tag": tag} for id, tag in dict(attempt.tags).items()]})
    reflected = _votes_of(reflections[-1]) if reflections else Delta()
    curated = _delta(curator(task, reflections[-1] if reflections else attempt, playbook))
    tags = votes.tags | reflected.tags | curated.tags
    problems = (*votes.problems, *reflected.problems, *curated.problems)
    delta = Delta(curated.operations, tags, curated.reasoning, problems)

    book = playbook.merge(delta)
    problems = book.problems
    clean = lambda book: book.deduplicate(threshold, embed)  # noqa: E731
    book = REFINE[refine](book, budget, clean, lambda book: book.tokens(counters, count)).within(budget, counters, count)
    return TaskStep(playbook, attempt, feedback, tuple(reflections), delta, book, problems)


def _delta(answer):
    if answer is None:
        return Delta()
    return answer if isinstance(answer, Delta) else Delta.parse(answer)


def _votes_of(reflection):
    """The tags of a reflection that has them; one in plain words, or an object of your own, has none."""
    if isinstance(reflection, Delta):
        return reflection
    if isinstance(reflection, dict) and "bullet_tags" in reflection:
        return Delta.parse(reflection)
    if isinstance(reflection, str) and '"bullet_tags"' in reflection:
        return Delta.parse(reflection)
    return Delta()
