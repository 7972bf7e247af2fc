"""The what-if studies of the ACE notebook: one function a panel, one frozen result each.

Each takes what a student can move; the mechanisms are those of labkit.ace, and GPU seconds come from labkit.kv_cost.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from os.path import commonprefix

import numpy as np
import pandas as pd

from labkit import checks
from labkit.ace_learners import ARMS, WAYS
from labkit.ace_learning import learning_study, survival_sweep
from labkit.ace_playbook import Playbook
from labkit.ace_serving import MODES, PlaybookSettings, default_roofline, serve_playbook, step_seconds
from labkit.ace_task import Attempt, run_task
from labkit.ace_text import count_tokens
from labkit.ace_trace import even_trace
from labkit.ace_world import LearningSettings

# --- a playbook to step through -----------------------------------------------------------------

SYSTEM = "You are an agent that uses apps by writing code. Use the playbook.\n\n"
STRATEGIES, CODE, MISTAKES = "STRATEGIES & INSIGHTS", "CODE SNIPPETS & TEMPLATES", "COMMON MISTAKES TO AVOID"
SECTIONS = {"three sections": {}, "one section": dict.fromkeys((STRATEGIES, CODE, MISTAKES), "OTHERS")}
RENDERINGS = {"counters in the text": True, "counters as metadata": False}

LESSONS = {  # name -> section, text
    "login": (STRATEGIES, "Log in to an app with the stored password before its first call."),
    "pages": (CODE, "while page := api(n): items += page; n += 1"),
    "cents": (MISTAKES, "Amounts are in cents, not in euros."),
    "names": (STRATEGIES, "Find a person by phone number: first names repeat."),
    "once": (STRATEGIES, "Never send two messages on one day."),  # wrong: the judge misread a failure
    "zone": (MISTAKES, "Calendar times are in UTC."),
    "log in": (STRATEGIES, "Log in to an app with your stored password before its first call."),  # says the same as login
    "done": (CODE, "api.complete_task(answer)"),
    "draft": (MISTAKES, "A draft is not sent: call send()."),
}

TASKS = (  # task, lessons that it uses, the lesson it teaches, whether it went well
    ("Play my newest playlist", (), "login", False),
    ("Count the songs in it", ("login",), "pages", False),
    ("Pay Ana 12.50 for lunch", ("login",), "cents", False),
    ("Like all songs of one singer", ("login", "pages"), None, True),
    ("Text Ben that I am late", ("login",), "names", False),
    ("Ask Ben and Eva for a date", ("login", "names"), "once", True),
    ("Split the rent with Eva", ("cents", "names"), None, True),
    ("Move the call to 3 pm", ("login",), "zone", False),
    ("Remind Ben, then thank him", ("names", "once"), None, False),
    ("Mail the minutes to all", ("login", "names"), "log in", False),
    ("Sum up what I spent in May", ("cents", "pages"), None, True),
    ("Answer both of Eva's mails", ("once",), "done", False),
    ("Who is free on Monday?", ("zone", "pages"), None, True),
    ("Pay back all open debts", ("cents", "pages", "done"), None, True),
    ("Mail the invoice to Ana", ("login", "names", "done"), "draft", False),
    ("Send the draft to Eva", ("draft", "done"), None, True),
)


def scripted_task(task, playbook, topics, clean):
    """One task of `TASKS` through `labkit.ace.run_task`: every role is scripted, merging is the real code."""
    text, uses, lesson, well = task
    found = {bullet.text: bullet.id for bullet in playbook.bullets}
    used = [found[LESSONS[name][1]] for name in uses if LESSONS[name][1] in found]
    wrong = found.get(LESSONS["once"][1])

    def reflector(task, attempt, feedback, playbook, previous):
        tag = "helpful" if well else "neutral"  # a failure that teaches was not the fault of what was known already
        return {"bullet_tags": [{"id": id, "tag": "harmful" if id == wrong else tag} for id in used]}

    def curator(task, reflection, playbook):
        section, content = LESSONS.get(lesson, ("", ""))
        added = [{"type": "ADD", "section": topics.get(section, section), "content": content}] if lesson else []
        harmful = [bullet for bullet in playbook.bullets if bullet.harmful > bullet.helpful + 1]
        return {"operations": added + [{"type": "DELETE", "id": bullet.id} for bullet in harmful]}

    return run_task(lambda task, playbook: Attempt(well), reflector, curator, playbook, text, refine="always" if clean else "never")


@dataclass(frozen=True)
class PlaybookSteps:
    """The prompts of a growing playbook, and what of each the cache of the one before held.

    Attributes
    ----------
    step : int
        The prompt looked at, from 1.
    lines : dict of rendering to list of (line, whether the cache held all of it)
    sizes : dict of rendering to DataFrame
        A row per prompt (from 1): prompt and hit (tokens of 4 bytes).
    task : str
    changes : list of str
        What the task before changed in the playbook.
    """

    step: int
    lines: dict
    sizes: dict
    task: str = ""
    changes: list = field(default_factory=list)

    def __repr__(self):
        cached = {name: sizes["hit"][self.step] / sizes["prompt"][self.step] for name, sizes in self.sizes.items()}
        return f"PlaybookSteps(step {self.step}: {', '.join(f'{share:.1%} cached with {name}' for name, share in cached.items())})"


@lru_cache(maxsize=8)
def _run(sections, clean):
    """The scripted tasks one by one: steps, and of each rendering the prompts."""
    if sections not in SECTIONS:
        raise ValueError(f"sections must be one of {', '.join(SECTIONS)}; got {sections!r}")
    topics = SECTIONS[sections]
    names = dict.fromkeys(topics.get(section, section) for section in (STRATEGIES, CODE, MISTAKES))
    book, steps = Playbook(sections=tuple(names)), []
    for task in TASKS:
        steps.append(scripted_task(task, book, topics, clean))
        book = steps[-1].playbook
    prompts = {name: [f"{SYSTEM}{step.shown.render(counters)}\nTask {n}: {task[0]}"
                      for n, (step, task) in enumerate(zip(steps, TASKS), start=1)] for name, counters in RENDERINGS.items()}
    return steps, prompts


def playbook_steps(step=1, sections="three sections", clean=True) -> PlaybookSteps:
    """A playbook over 16 scripted tasks, in both renderings: counters in the text, or kept beside it.

    hit = longest common prefix with the prompt before (0 for the first).

    Parameters
    ----------
    step : the task whose prompt is looked at, 1 to 16.
    sections : a key of SECTIONS.
    clean : de-duplicate after each task.

    Raises
    ------
    ValueError
        If there is no such step, or no such kind of sections.
    """
    checks.whole("step", step, 1, len(TASKS))
    checks.flag("clean", clean)
    steps, prompts = _run(sections, clean)
    lines, sizes = {}, {}
    for name, texts in prompts.items():
        kept = ["", *(commonprefix([old, new]) for old, new in zip(texts, texts[1:]))]
        sizes[name] = pd.DataFrame({"prompt": [count_tokens(text) for text in texts], "hit": [len(k.encode()) // 4 for k in kept]},
                                   index=range(1, len(texts) + 1))
        ends = np.cumsum([len(line) + 1 for line in texts[step - 1].split("\n")])
        held = len(kept[step - 1])
        lines[name] = [(line, bool(end <= held)) for line, end in zip(texts[step - 1].split("\n"), ends) if line]
    changes = what_changed(steps[step - 2].shown, steps[step - 2].playbook) if step > 1 else []
    return PlaybookSteps(step, lines, sizes, TASKS[step - 1][0], changes)


def what_changed(before, after):
    """One text per change: the bullets added, voted for, merged, deleted between two playbooks."""
    old, new = ({bullet.id: bullet for bullet in book.bullets} for book in (before, after))
    votes = [f"{id} {name} + 1" for id in old if id in new for name in ("helpful", "harmful")
             if getattr(new[id], name) == getattr(old[id], name) + 1]
    gone = [f"{id} deleted" for id in old if id not in new]
    merged = [f"{id} merged into {into}" for id, into in after.retired.items() if into and id not in before.retired]
    return [f"{id} added: {new[id].text}" for id in new if id not in old] + merged + votes + gone


# --- what it costs to serve ---------------------------------------------------------------------

PARTS = ("prefill", "answer", "writing", "reflection")


@dataclass(frozen=True)
class PlaybookCost:
    """One trace served in every mode.

    Attributes
    ----------
    settings : PlaybookSettings
        With the chosen mode.
    served : dict of mode to PlaybookServing
    seconds : DataFrame, a row per mode, columns PARTS (GPU seconds of all steps)
    """

    settings: PlaybookSettings
    served: dict
    seconds: pd.DataFrame

    def __repr__(self):
        seconds = ", ".join(f"{mode} {value:,.1f}" for mode, value in self.seconds.sum(axis=1).items())
        return f"PlaybookCost({self.settings.mode}: {self.chosen.reuse:.1%} from the cache; GPU s: {seconds})"

    @property
    def chosen(self):
        """The chosen mode's result."""
        return self.served[self.settings.mode]

    @property
    def ratio(self):
        """GPU time of rewriting / of appending."""
        return self.seconds.loc["rewrite"].sum() / self.seconds.loc["append"].sum()


@lru_cache(maxsize=64)
def _trace(p_add, touched, drop_every):
    return even_trace(p_add=p_add, touched=touched, drop_every=drop_every)


def playbook_cost(mode="append", p_add=0.6, touched=3, drop_every=0, batch=1, reflector_output=0) -> PlaybookCost:
    """Serve 300 steps of a playbook (`labkit.ace.even_trace`) in all modes, GPU seconds by cause.

    Parameters
    ----------
    mode : a key of MODES, whose prompts are shown.
    p_add : bullets per step.
    touched : bullets per step whose counters change.
    drop_every : de-duplication drops 10 % of the bullets after each so many steps; 0 = never.
    batch : requests decoded together.
    reflector_output : tokens of reflection per step.
    """
    settings = PlaybookSettings(mode=mode, batch=batch, reflector_output=reflector_output)
    trace = _trace(p_add, touched, drop_every)
    roofline = default_roofline()
    served = {name: serve_playbook(trace, replace(settings, mode=name), roofline) for name in MODES}
    seconds = pd.DataFrame({name: _by_cause(run, settings, roofline) for name, run in served.items()}).T
    return PlaybookCost(settings, served, seconds)


def _by_cause(run, settings, roofline):
    """GPU seconds of a run by PARTS: each is what comes on top when its tokens are counted too."""
    prompt, hit, written = (run.steps_table[name].to_numpy() for name in ("prompt", "hit", "written"))
    quiet = replace(settings, reflector_output=0)
    counted = ((0, replace(quiet, output=0)), (0, quiet), (written, quiet))
    totals = [step_seconds(prompt, hit, tokens, s, roofline).sum() for tokens, s in counted]
    return dict(zip(PARTS, np.diff([0, *totals, run.gpu_seconds])))


# --- learning -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learning:
    """How the ways of keeping lessons fare.

    Attributes
    ----------
    study : DataFrame
        As `learning_study`, of all WAYS.
    end : DataFrame, a row per way
        The same at the last task; accuracy, low and high are means over the last tenth; gpu_seconds of all test tasks.
    way, arm : str
        The way looked at, and the arm.
    settings : LearningSettings
    reliability : float
    """

    study: pd.DataFrame
    end: pd.DataFrame
    way: str
    arm: str
    settings: LearningSettings
    reliability: float

    def __repr__(self):
        ends = ", ".join(f"{way} {value:.1%}" for way, value in self.end["accuracy"].items())
        return f"Learning({self.arm}, reliability {self.reliability:g}; accuracy at the end: {ends})"


def learning(way="rewrite", reliability=1.0, budget=80_000, prune=False, arm="online", reflector=True) -> Learning:
    """All ways of keeping lessons in the same worlds (`labkit.ace.learning_study`), and where each ends.

    Parameters
    ----------
    way : a key of WAYS, shown with its band.
    reliability : chance that the feedback is right.
    budget : tokens of context.
    prune : drop bullets with harmful >= helpful.
    arm : a key of ARMS.
    reflector : a separate one, or the curator reads the attempt itself.
    """
    if way not in WAYS or arm not in ARMS:
        raise ValueError(f"way must be one of {', '.join(WAYS)} and arm one of {', '.join(ARMS)}; got {way!r}, {arm!r}")
    checks.flag("reflector", reflector)
    settings = LearningSettings(budget=budget, prune=prune)
    study = learning_study(list(WAYS), reliability, settings, arm, reflector)
    by_way = study[~study["training"]].groupby("way", sort=False)
    end = by_way.last()
    for name in ("accuracy", "low", "high"):
        end[name] = by_way[name].apply(lambda values: values.iloc[-max(1, len(values) // 10):].mean())
    end["gpu_seconds"] = by_way["gpu_seconds"].sum()
    return Learning(study, end, way, arm, settings, reliability)


# --- where rewriting catches up -----------------------------------------------------------------

COLLAPSES = {0.0: "never", 1 / 240: "1 in 240", 1 / 120: "1 in 120", 1 / 60: "1 in 60", 1 / 30: "1 in 30"}


@dataclass(frozen=True)
class CatchingUp:
    """`sweep`: DataFrame as `labkit.ace.survival_sweep`, for one chance of collapse; with the settings that gave it."""

    sweep: pd.DataFrame
    collapse: float
    reliability: float
    base: float

    def __repr__(self):
        gaps = ", ".join(f"{gap:+.1f}" for gap in 100 * self.sweep["gap"])
        lost = ", ".join(f"{100 * (1 - survival):.3g}" for survival in self.sweep["survival"])
        return f"CatchingUp(rewriting - appending: {gaps} points where {lost} % of the lessons are lost)"


def catching_up(collapse=0.0, reliability=1.0, long=30) -> CatchingUp:
    """Rewriting beside appending, as a rewrite loses fewer and fewer lessons.

    Parameters
    ----------
    collapse : chance that a rewrite of a long context collapses.
    reliability : chance that the feedback is right.
    long : lessons from which a context counts as long; a shorter one loses less.
    """
    checks.share("collapse", collapse)
    settings = LearningSettings(long=long)
    sweep = survival_sweep(collapses=(collapse,), reliability=reliability, settings=settings)
    return CatchingUp(sweep, collapse, reliability, settings.base)
