"""What the mem0 paper reports on LOCOMO, checked by arithmetic; and the same retrieval on the real dialogues, for those who have them.

The paper's Table 1 gives a judge's score (J) by category, its Table 2 an overall J.  Overall = sum of count x J / sum of counts,
with LOCOMO's counts; but which of the paper's category names stands for which of LOCOMO's numbers?
"""

from collections import Counter
from itertools import permutations

import pandas as pd

from labkit import reference
from labkit.locomo import CATEGORIES, evidence_recall, read_locomo

COUNTS = {1: 282, 2: 321, 3: 96, 4: 841}  # questions of each LOCOMO category; 5 (adversarial) has no answer and is left out
NAMES = ("single-hop", "multi-hop", "open-domain", "temporal")  # as the paper's Table 1 calls its columns
LOCOMO_NAMES = {name: number for number, name in CATEGORIES.items() if number in COUNTS}  # the same names as LOCOMO numbers them


def judge_scores():
    """J in per cent: a row a system of Table 1, columns the paper's category names and "overall" (Table 2)."""
    rows = reference.paper_results("mem0").replace({"method": {"A-Mem*": "A-Mem"}})  # starred in Table 1 only
    named = rows.assign(name=rows.dataset.str.extract(r"LOCOMO (\S+) \(paper label\)")[0])
    by_name = named[named.metric == "LLM-judge J"].pivot(index="method", columns="name", values="value")[list(NAMES)]
    overall = rows[rows.metric == "overall J"].set_index("method").value
    return by_name.join(overall.rename("overall"), how="left").sort_values("overall", ascending=False)


def headline(methods=("Full-context", "Mem0", "Mem0g", "Zep", "OpenAI", "RAG k=2 chunk 256", "RAG k=1 chunk 256")):
    """Table 2: tokens read, latency (s) and the judge's overall score (J, per cent) of some systems."""
    rows = reference.paper_results("mem0")
    wanted = {"chunk size / memory tokens per question": "tokens", "search latency p50": "search p50 (s)", "total latency p50": "total p50 (s)",
              "total latency p95": "total p95 (s)", "overall J": "J"}
    table = rows[(rows.place == "Table 2") & rows.metric.isin(wanted)].pivot(index="method", columns="metric", values="value")
    return table.loc[list(methods), list(wanted)].rename(columns=wanted).rename_axis(index=None, columns=None)


def word_f1(answer, truth):
    """F1 of the words of an answer: 2 x shared / (words of the answer + words of the truth), repeats counted."""
    said, right = Counter(answer.lower().split()), Counter(truth.lower().split())
    return 2 * (said & right).total() / (said.total() + right.total())


def weighted_overall(numbering=None):
    """Overall J out of Table 1 if the paper's names stand for these LOCOMO categories.

    Parameters
    ----------
    numbering : dict of name to LOCOMO number (1 to 4), LOCOMO's own by default (`LOCOMO_NAMES`).

    Returns
    -------
    DataFrame
        A row a system: weighted, Table 2, difference (per cent of J).

    Raises
    ------
    ValueError
        Unless each of the four names gets a number of its own.
    """
    numbering = LOCOMO_NAMES if numbering is None else numbering
    if set(numbering) != set(NAMES) or set(numbering.values()) != set(COUNTS):
        raise ValueError(f"numbering needs each of {', '.join(NAMES)} with a number of its own from {sorted(COUNTS)}, not {numbering!r}")
    scores = judge_scores()
    weighted = sum(COUNTS[number] * scores[name] for name, number in numbering.items()) / sum(COUNTS.values())
    return pd.DataFrame({"weighted": weighted, "Table 2": scores.overall, "difference": weighted - scores.overall}).round(2)


def worst_misfit(numbering=None):
    """Largest difference to Table 2 over the six systems, in points of J."""
    return float(weighted_overall(numbering).difference.abs().max())


def all_numberings():
    """The 24 ways to give the paper's four names LOCOMO's four numbers."""
    return [dict(zip(NAMES, numbers)) for numbers in permutations(COUNTS)]


def locomo_report(path=None, sizes=((128, 16), (256, 8), (512, 4), (1_024, 2), (2_048, 1)), embed=None):
    """How often RAG finds the evidence in the real LOCOMO dialogues; without a file, what it would do.

    Parameters
    ----------
    path : of a copy of locomo10.json, or None.
    sizes : (chunk, k) to try.
    embed : list of str -> array; by default hashed TF-IDF, which needs no network.

    Returns
    -------
    str
    """
    if path is None:
        return ("With the path of locomo10.json in LOCOMO, this cell would cut the ten real dialogues into chunks and print how often the "
                "chunks nearest to a question hold all its evidence.")
    dialogues = read_locomo(path)
    tables = {f"{chunk} x {k}": evidence_recall(dialogues, chunk, k, embed).set_index("kind") for chunk, k in sizes}
    table = pd.DataFrame({name: found.all_found.map("{:.3f}".format) for name, found in tables.items()})
    table.insert(0, "questions", next(iter(tables.values())).questions.astype(str))
    table.loc["tokens read"] = ["", *(f"{found.tokens['all']:,.0f}" for found in tables.values())]
    malformed = pd.DataFrame([dialogue.malformed for dialogue in dialogues]).sum()
    return (f"{len(dialogues)} dialogues, {sum(len(d.turns) for d in dialogues):,} turns; share of questions with all evidence found\n"
            f"{table.rename_axis(None).to_string()}\n"
            f"malformed evidence: {', '.join(f'{count} {what}' for what, count in malformed.items())}")
