"""LOCOMO, the real data behind the toy: ten long conversations with questions, and how often search finds the evidence.

The file `locomo10.json` is public but not ours to ship (CC BY-NC 4.0, snap-research/locomo); a reader passes the path of a
copy. No language model is used: a question counts as found when all turns that its evidence names were retrieved.
"""

import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labkit import checks
from labkit.conversation_world import MOST, unit
from labkit.memory_reading import chunk_starts

# As LOCOMO's authors number them. The mem0 paper calls 1 single-hop, 3 multi-hop and 4 open-domain: permuted names.
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
TURN_ID = re.compile(r"D(\d+):(\d+)")
WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Dialogue:
    """One LOCOMO conversation.

    Attributes
    ----------
    name : str
    turns : DataFrame
        id ("D1:3" = session 1, turn 3), session, date, speaker, text (a shared picture's caption included).
    questions : DataFrame
        question, answer (text; missing for category 5, which has none), category (1..5), kind (its name), evidence (tuple of
        turn ids, each in `turns`).
    malformed : dict
        Counts of evidence entries: split (several ids in one), respelled (such as "D8:06"), skipped (no id in it),
        unknown (an id no turn has).
    """

    name: str
    turns: pd.DataFrame
    questions: pd.DataFrame
    malformed: dict


def parse_evidence(entries, known):
    """Turn ids out of a question's evidence.

    Parameters
    ----------
    entries : list of str, str or None
        As in the file; an entry may hold no id ("D"), several ("D8:6; D9:17", "D9:1 D4:4") or a broken one ("D:11:26").
    known : set of str
        Ids of the turns that exist.

    Returns
    -------
    ids : tuple of str
        Without repeats, in order.
    malformed : dict
        Counts of entries that were split, respelled, skipped or unknown.
    """
    ids, malformed = [], dict.fromkeys(("split", "respelled", "skipped", "unknown"), 0)
    for entry in [entries] if isinstance(entries, str) else entries or []:
        parts = re.split(r"[;,\s]+", str(entry).strip("()[]; ,"))
        matches = [TURN_ID.fullmatch(part) for part in parts]
        found = [f"D{int(match[1])}:{int(match[2])}" for match in matches if match]
        malformed["split"] += len(parts) > 1
        malformed["skipped"] += matches.count(None)
        malformed["respelled"] += sum(match[0] != turn for match, turn in zip(filter(None, matches), found))
        malformed["unknown"] += sum(turn not in known for turn in found)
        ids += [turn for turn in found if turn in known]
    return tuple(dict.fromkeys(ids)), malformed


def read_locomo(path):
    """Read a `locomo10.json`.

    Returns
    -------
    list of Dialogue

    Raises
    ------
    ValueError
        If the file is not there, is not JSON, or holds no conversation of this format.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no file at {path}; locomo10.json is public at github.com/snap-research/locomo (CC BY-NC 4.0)")
    try:
        samples = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:       # not UTF-8, not JSON, too large a number, nested too deeply
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    samples = [samples] if isinstance(samples, dict) else samples
    if not isinstance(samples, list) or not samples or not all(isinstance(sample, dict) and "conversation" in sample for sample in samples):
        raise ValueError(f"{path} is no LOCOMO file: expected a list of objects with the fields conversation and qa")
    return [_dialogue(sample, f"conversation {number}") for number, sample in enumerate(samples, 1)]


def _dialogue(sample, name):
    name = str(sample.get("sample_id", name))
    turns, talk = [], _is(sample["conversation"], dict, f"{name}: conversation")
    sessions = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
    for session in sessions:
        for number, turn in enumerate(_is(talk[f"session_{session}"] or [], list, f"{name}: session_{session}"), 1):
            where = f"{name}: session_{session}, turn {number}"
            id, speaker = (_text(_is(turn, dict, where), field, where) for field in ("dia_id", "speaker"))
            caption = turn.get("blip_caption") and _text(turn, "blip_caption", where)
            text = _text(turn, "text", where) if turn.get("text") else ""
            turns.append((id.strip(), session, talk.get(f"session_{session}_date_time"), speaker,
                          f"{text} [shares {caption}]".strip() if caption else text))
    if not turns:
        raise ValueError(f"{name} has no turns: expected fields session_1, session_2, ... with a list of turns each")
    turns = pd.DataFrame(turns, columns=["id", "session", "date", "speaker", "text"])
    known, rows, malformed = set(turns.id), [], {}
    for number, question in enumerate(_is(sample.get("qa") or [], list, f"{name}: qa"), 1):
        where = f"{name}: question {number}"
        category = _is(question, dict, where).get("category")
        if isinstance(category, bool) or str(category) not in map(str, CATEGORIES):
            raise ValueError(f"{where}: category must be one of {', '.join(map(str, CATEGORIES))}; got {category!r}")
        category = int(category)
        if not isinstance(question.get("evidence"), (list, str, type(None))):
            raise ValueError(f"{where}: evidence must be a list of turn ids such as D1:3; got {question['evidence']!r}")
        answer = None if category == 5 or question.get("answer") is None else str(question["answer"])  # some are numbers
        evidence, counts = parse_evidence(question.get("evidence"), known)
        malformed = {key: malformed.get(key, 0) + count for key, count in counts.items()}
        rows.append((_text(question, "question", where), answer, category, CATEGORIES[category], evidence))
    return Dialogue(name, turns, pd.DataFrame(rows, columns=["question", "answer", "category", "kind", "evidence"]), malformed)


def _is(value, kind, where):
    if not isinstance(value, kind):
        raise ValueError(f"{where} must be {'an object with fields' if kind is dict else 'a list'}; got {value!r:.60}")
    return value


def _text(fields, name, where):
    if not isinstance(fields.get(name), str):
        raise ValueError(f"{where}: {name} must be a text; got {fields.get(name)!r:.60}")
    return fields[name]


def count_tokens(text):
    """Words and punctuation marks of a text, at least 1: a stand-in for a tokenizer."""
    return max(1, len(WORD.findall(text)))


def hashed_tfidf(corpus, dimensions=4_096):
    """An embedding without a network or a model: words hashed into `dimensions`, rare words weigh more.

    weight of a word = (1 + log count) x log((1 + N) / (1 + documents with it)), then length 1.

    Parameters
    ----------
    corpus : list of str
        N texts from which the document counts are taken.
    dimensions : int
        Two words that fall into one place are taken for the same.

    Returns
    -------
    embed : callable, list of str -> ndarray (texts, dimensions)
    """
    checks.whole("dimensions", dimensions, 1, MOST)

    def counts(texts):
        table = np.zeros((len(texts), dimensions), np.float32)
        for row, text in zip(table, texts):
            words = [zlib.crc32(word.encode()) % dimensions for word in re.findall(r"\w+", text.lower())]
            np.add.at(row, words, 1)
        return table

    rarity = np.log((1 + len(corpus)) / (1 + np.count_nonzero(counts(corpus), axis=0)))

    def embed(texts):
        table = counts(texts)
        return unit(np.where(table > 0, 1 + np.log(np.maximum(table, 1)), 0) * rarity)

    return embed


def evidence_recall(dialogues, chunk=128, k=16, embed=None, tokens=count_tokens, categories=(1, 2, 3, 4)):
    """How often the k chunks nearest to a question hold the turns that answer it.

    Whole turns until a chunk has at least `chunk` tokens, as for the toy's RAG; cosine of embeddings.

    Parameters
    ----------
    dialogues : list of Dialogue
    chunk, k : int
        Tokens a chunk, chunks retrieved.
    embed : callable, optional
        list of str -> array (texts, dimensions), any scale; by default `hashed_tfidf` of the dialogue's chunks.
    tokens : callable
        str -> int.
    categories : sequence of int
        Questions to ask; those without evidence are left out. 5 (adversarial) has no answer.

    Returns
    -------
    DataFrame
        kind (LOCOMO's names, then "all"), questions, all_found (share with all evidence retrieved), share_found (mean share
        of the evidence), tokens (read a question).
    """
    checks.whole("chunk", chunk, 1, MOST)
    checks.whole("k", k, 1, MOST)
    found = pd.concat([_recall_of(dialogue, chunk, k, embed, tokens, categories) for dialogue in dialogues], ignore_index=True)
    if found.empty:
        raise ValueError(f"no question of the categories {tuple(categories)} has evidence")
    both = pd.concat([found, found.assign(kind="all", category=9)])
    table = both.groupby(["category", "kind"], as_index=False).agg(
        questions=("all_found", "size"), all_found=("all_found", "mean"), share_found=("share_found", "mean"), tokens=("tokens", "mean"))
    return table.drop(columns="category")


def _recall_of(dialogue, chunk, k, embed, tokens, categories):
    """A row a question: category, kind, all_found, share_found, tokens."""
    lines = (dialogue.turns.speaker + ": " + dialogue.turns.text).tolist()
    sizes = np.array([tokens(line) for line in lines])
    starts = chunk_starts(sizes, chunk)
    chunk_of = dict(zip(dialogue.turns.id, np.searchsorted(starts, np.arange(len(lines)), side="right") - 1))
    texts = ["\n".join(part) for part in np.split(np.array(lines, dtype=object), starts[1:])]
    chunk_tokens = np.add.reduceat(sizes, starts)
    asked = dialogue.questions[dialogue.questions.category.isin(categories) & (dialogue.questions.evidence.str.len() > 0)]
    rows = []
    if len(asked):
        embed = embed or hashed_tfidf(texts)
        similarity = unit(np.asarray(embed(asked.question.tolist()))) @ unit(np.asarray(embed(texts))).T
        nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        for question, read in zip(asked.itertuples(), nearest):
            met = np.isin([chunk_of[turn] for turn in question.evidence], read)
            rows.append((question.category, question.kind, met.all(), met.mean(), chunk_tokens[read].sum()))
    return pd.DataFrame(rows, columns=["category", "kind", "all_found", "share_found", "tokens"])
