"""What a playbook costs the server: prompts, prefix cache and GPU seconds of one growing playbook (L14 section 5.4).

    prompt = system | playbook | task          hit = longest common prefix with the previous prompt

After each step the playbook changes, and what changes how decides everything: `append` only adds a bullet at the
end, `counters` also edits the touched bullets in place, `rewrite` has the model write the whole playbook anew.
The evolution itself is plain data, a trace: so one trace can be served in every mode, and a log can be served too.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.ace_trace import check_trace
from labkit.ace_trace import even_trace, load_trace, random_trace, save_trace, trace_of  # noqa: F401
from labkit.kv_cost import Roofline, check


# --- modes: what a step leaves of the playbook in the cache, and what the model has to write -------------------


def append(shown, entry, bullets, new):
    """Only the end grows: all bullets shown stay, the new one is written."""
    return shown, new


def counters(shown, entry, bullets, new):
    """Counters stand in the text, so a touched bullet changes as a whole; code and not the model edits it."""
    return min([shown, *entry["touch"]]), new


def rewrite(shown, entry, bullets, new):
    """Every bullet's tokens are new and all of them are written; nothing of the playbook stays."""
    return 0, bullets


# name -> (bullets shown, trace entry, bullets after the add, new bullets) -> (bullets kept in front, bullets written)
MODES = {"append": append, "counters": counters, "rewrite": rewrite}


# --- settings and result ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlaybookSettings:
    """Sizes in tokens; the defaults are the setting of L14 section 5.4."""

    system: int = 500  # instructions in front of the playbook, always the same
    task: int = 300  # the task behind the playbook, always new
    output: int = 300  # what the generator writes a step
    bullet: int = 40  # one bullet of the playbook
    mode: str = "append"  # what a step does to the text: a key of MODES
    batch: int = 1  # requests decoded together; prefill is never batched
    reflector_output: int = 0  # tokens of reflection a step, decoded behind prompt and output; 0 as in the notes

    def __post_init__(self):
        for name, least in dict(system=0, task=1, output=0, bullet=1, batch=1, reflector_output=0).items():
            checks.whole(f"PlaybookSettings: {name}", getattr(self, name), least)
        if not isinstance(self.mode, str) or self.mode not in MODES:
            raise ValueError(f"PlaybookSettings: mode must be one of {', '.join(MODES)}; got {self.mode!r}")


@dataclass(frozen=True)
class PlaybookServing:
    """What one evolving playbook asked of the server.

    Attributes
    ----------
    prompt_tokens, hit_tokens : int
        Of all the generator's prompts, and the part of them that the cache held.
    generated : int
        The generator's output, tokens.
    written : int
        Tokens written into the playbook: new bullets, or the whole of it at each step.
    gpu_seconds : float
        Of all steps: prefill, generator, reflector, writing.
    mean_playbook, final_playbook : float, int
        Mean tokens of the playbooks shown; tokens after the last step.
    steps_table : DataFrame
        A row a step: step (from 0), playbook, prompt, hit, written (tokens), gpu_seconds.
    """

    prompt_tokens: int
    hit_tokens: int
    generated: int
    written: int
    gpu_seconds: float
    mean_playbook: float
    final_playbook: int
    steps_table: pd.DataFrame = field(repr=False, compare=False)

    @property
    def reuse(self):
        """hits / prompt tokens."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def serve_playbook(trace, settings=PlaybookSettings(), roofline=None):
    """Serve the generator's prompts of a trace behind a cache of its previous prompt.

    Order after a step: touch, add, rewrite, drop. So bullets that are dropped right after were written all the same.

    Parameters
    ----------
    trace : list of dict
        One entry a step, ``{"add": bool, "touch": [positions], "drop": [positions] or None}``. `touch` counts in the
        playbook that the step's prompt showed, `drop` in the playbook after the step's bullet was added.
    settings : PlaybookSettings
    roofline : labkit.kv_cost.Roofline, optional
        Llama-3-8B on one H100 if not given.

    Returns
    -------
    PlaybookServing

    Raises
    ------
    ValueError
        If an entry is malformed; names its number, counted from 0, and its field.

    Notes
    -----
    L14 section 5.4. Only the generator's prompts are counted; the first one misses all.
    """
    check_trace(trace)
    _check_kinds("serve_playbook", settings, roofline)
    s, mode = settings, MODES[settings.mode]
    shown, written, kept = np.zeros((3, len(trace)), dtype=np.int64)
    bullets = 0
    for step, entry in enumerate(trace):
        new, drop = int(entry["add"]), entry["drop"] or []
        shown[step] = bullets
        stay, written[step] = mode(bullets, entry, bullets + new, new)
        kept[step] = min([stay, *drop])
        bullets += new - len(drop)

    prompt = s.system + s.bullet * shown + s.task
    hit = np.zeros_like(prompt)
    hit[1:] = s.system + s.bullet * kept[:-1]
    seconds = step_seconds(prompt, hit, s.bullet * written, s, roofline)
    table = pd.DataFrame({"step": np.arange(len(trace)), "playbook": s.bullet * shown, "prompt": prompt, "hit": hit,
                          "written": s.bullet * written, "gpu_seconds": seconds})
    return PlaybookServing(
        prompt_tokens=int(prompt.sum()),
        hit_tokens=int(hit.sum()),
        generated=s.output * len(trace),
        written=int(s.bullet * written.sum()),
        gpu_seconds=float(seconds.sum()),
        mean_playbook=float(s.bullet * shown.mean()) if trace else 0.0,
        final_playbook=s.bullet * bullets,
        steps_table=table,
    )


def step_seconds(prompt, hit, written, settings=PlaybookSettings(), roofline=None):
    """GPU seconds of steps: prefill(n - hit, cached=hit) + decode of output, of what is written, of the reflection.

    A decode of w tokens behind m costs w x step(b, m + w / 2) / b: the mean step, shared by the batch.

    Parameters
    ----------
    prompt, hit, written : array of int
        Tokens of each step.
    settings : PlaybookSettings
        For output, batch and reflector_output.

    Returns
    -------
    ndarray
        Seconds, of the same shape.
    """
    _check_kinds("step_seconds", settings, roofline)
    if np.size(prompt) == 0:
        return np.zeros(np.shape(prompt))
    s, roofline = settings, roofline or default_roofline()

    def decode(tokens, behind):
        return tokens * roofline.step_seconds(s.batch, behind + tokens / 2) / s.batch

    prefill = roofline.prefill_seconds(np.asarray(prompt) - hit, cached=hit)
    ahead = prompt + s.output
    return prefill + decode(s.output, prompt) + decode(written, ahead) + decode(s.reflector_output, ahead)


@cache
def default_roofline():
    """Llama-3-8B on one H100, 80 GB: the pair of the lecture notes."""
    return Roofline("Llama-3-8B", "H100 SXM")


def playbook_users(playbook, settings=PlaybookSettings(), roofline=None):
    """Users that one GPU holds at once, and their tokens/s, against the tokens of a playbook that each has for itself.

    Cheap in prefill is not cheap in decoding: at each token the KV of the whole playbook is read once more.

    Parameters
    ----------
    playbook : list of int
        Lengths in tokens, from 0.

    Returns
    -------
    DataFrame
        playbook (tokens), users, throughput (tokens/s of all), step_ms (one token of a user, all places taken).
    """
    _check_kinds("playbook_users", settings, roofline)
    check("playbook", playbook, least=0)
    s, roofline = settings, roofline or default_roofline()
    playbook = np.atleast_1d(playbook)
    held = dict(context=s.system + playbook, question=s.task, answer=max(s.output, 1))
    users = roofline.max_users(**held)
    throughput = roofline.throughput(**held)
    return pd.DataFrame({"playbook": playbook, "users": users, "throughput": throughput,
                         "step_ms": 1e3 * users / np.where(users > 0, throughput, np.nan)})


def _check_kinds(owner, settings, roofline):
    if not isinstance(settings, PlaybookSettings):
        raise ValueError(f"{owner}: settings must be PlaybookSettings(...); got {settings!r}")
    if not isinstance(roofline, (Roofline, type(None))):
        raise ValueError(f"{owner}: roofline must be a Roofline, such as Roofline('Llama-3-8B', 'H100 SXM'), or None; got {roofline!r}")


def reuse_with_counters(touched, playbook, settings=PlaybookSettings()):
    """(system + playbook / (touched + 1)) / (system + playbook + task): what the cache still holds, by hand.

    The least of k positions, uniform in [0, 1], is 1 / (k + 1) in the mean (L14 exercise 5).
    """
    _check_kinds("reuse_with_counters", settings, None)
    check("touched", touched, least=0), check("playbook", playbook, least=0)
    s = settings
    return (s.system + playbook / (touched + 1)) / (s.system + playbook + s.task)
