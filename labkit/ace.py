"""ACE: a playbook that grows by small deltas, what it costs to serve, and when learning from feedback goes wrong.

A model's context can be improved without touching its weights: write down what was learned, read it next time. ACE
keeps it as a playbook of bullets. A generator uses them, a reflector draws lessons, a curator proposes a small delta,
and plain code merges it. Three things can be done here, and this module is their one flat vocabulary:

grow it       `Playbook`, `Delta`, `run_task`: the public text form, merging, de-duplication, a budget
              (labkit/ace_playbook.py, ace_bullet.py, ace_delta.py, ace_task.py, ace_text.py)
pay for it    `serve_playbook`: what append, counters in the text and whole rewriting cost a server
              (labkit/ace_serving.py, traces as plain data in labkit/ace_trace.py)
learn by it   `learning_study`: collapse, brevity and bad feedback in a world where lessons are counted
              (labkit/ace_learning.py, its simulation in ace_learners.py, its assumptions in ace_world.py)

>>> book = Playbook.parse("## OTHERS\\n[misc-00001] helpful=2 harmful=0 :: Look before you leap.")
>>> print(book.merge({"operations": [{"type": "ADD", "section": "OTHERS", "content": "Read the error message."}]}).render())
## OTHERS
[misc-00001] helpful=2 harmful=0 :: Look before you leap.
[misc-00002] helpful=0 harmful=0 :: Read the error message.
<BLANKLINE>
>>> round(serve_playbook(even_trace()).reuse, 4)
0.9255

Source: Zhang et al., Agentic Context Engineering, arXiv:2510.04618.
"""

from labkit.ace_bullet import SLUGS, Bullet, Unread
from labkit.ace_delta import OPERATIONS, TAGS, Delta, Problem
from labkit.ace_learners import ARMS, SEEDS, WAYS, Condition, Way, simulate
from labkit.ace_learning import FEEDBACK, break_even, budget_sweep, final_accuracy, learning_arms, learning_study
from labkit.ace_learning import reliability_sweep, survival_sweep
from labkit.ace_playbook import BUDGET, THRESHOLD, Playbook
from labkit.ace_serving import MODES, PlaybookServing, PlaybookSettings, playbook_users, reuse_with_counters
from labkit.ace_serving import serve_playbook, step_seconds
from labkit.ace_task import REFINE, Attempt, TaskStep, run_task
from labkit.ace_text import bag_of_words, cosines, count_tokens
from labkit.ace_trace import check_trace, even_trace, load_trace, random_trace, save_trace, trace_of
from labkit.ace_world import LearningSettings

__all__ = [
    "SLUGS", "Bullet", "Unread", "OPERATIONS", "TAGS", "Delta", "Problem", "BUDGET", "THRESHOLD", "Playbook",
    "REFINE", "Attempt", "TaskStep", "run_task", "bag_of_words", "cosines", "count_tokens",
    "MODES", "PlaybookServing", "PlaybookSettings", "playbook_users", "reuse_with_counters", "serve_playbook", "step_seconds",
    "check_trace", "even_trace", "load_trace", "random_trace", "save_trace", "trace_of",
    "ARMS", "FEEDBACK", "SEEDS", "WAYS", "Condition", "LearningSettings", "Way", "break_even", "budget_sweep",
    "final_accuracy", "learning_arms", "learning_study", "reliability_sweep", "simulate", "survival_sweep",
]  # fmt: skip
