"""The LOCOMO reader on a small file of the same format, written for these tests, with each malformation in it."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.locomo import count_tokens, evidence_recall, hashed_tfidf, parse_evidence, read_locomo

TINY = Path(__file__).parent / "data" / "locomo_tiny.json"


@pytest.fixture(scope="module")
def dialogues():
    return read_locomo(TINY)


def test_reads_turns_and_questions(dialogues):
    first, second = dialogues
    assert (first.name, len(first.turns), len(first.questions)) == ("tiny-1", 16, 10)
    assert (second.name, len(second.turns), len(second.questions)) == ("tiny-2", 8, 4)
    assert first.turns.id.tolist()[5:8] == ["D1:6", "D2:1", "D2:2"]
    assert first.turns.date.iloc[-1] == "9:30 am on 2 June, 2024"
    assert "a photo of a ferry" in first.turns.text[3]  # the caption of a shared picture is text too


def test_answers_may_be_numbers_and_adversarial_questions_have_none(dialogues):
    questions = dialogues[0].questions.set_index("question")
    assert questions.answer["How many steps does the lighthouse have?"] == "219"
    assert questions.answer[questions.kind == "adversarial"].isna().all()
    assert set(questions.kind) == {"single-hop", "multi-hop", "temporal", "open-domain", "adversarial"}


def test_malformed_evidence_is_split_or_skipped_and_counted(dialogues):
    assert dialogues[0].malformed == {"split": 2, "respelled": 1, "skipped": 2, "unknown": 1}
    assert dialogues[1].malformed == {"split": 0, "respelled": 0, "skipped": 0, "unknown": 0}
    assert dialogues[0].questions.evidence[4] == ("D2:6", "D3:2")


@pytest.mark.parametrize("entries, ids, counted", [
    (["D1:1"], ("D1:1",), {}),
    (["D"], (), {"skipped": 1}),
    (["D8:6; D9:17"], ("D8:6", "D9:17"), {"split": 1}),
    (["D8:6 D9:17"], ("D8:6", "D9:17"), {"split": 1}),
    (["D:11:26"], (), {"skipped": 1}),
    (["D8:06"], ("D8:6",), {"respelled": 1}),
    (["D99:1", "D1:1"], ("D1:1",), {"unknown": 1}),
    (["D1:1", "D1:1"], ("D1:1",), {}),
    (["(D1:1)"], ("D1:1",), {}),
    ("D1:1", ("D1:1",), {}),
    (None, (), {}),
    ([""], (), {"skipped": 1}),
])
def test_parse_evidence(entries, ids, counted):
    found, malformed = parse_evidence(entries, {"D1:1", "D8:6", "D9:17"})
    assert found == ids
    assert {key: count for key, count in malformed.items() if count} == counted


@given(st.lists(st.text(alphabet="D:;, 0123456789()", max_size=12), max_size=4))
def test_parse_evidence_never_fails_and_gives_known_ids(entries):
    known = {"D1:1", "D2:3"}
    found, _ = parse_evidence(entries, known)
    assert set(found) <= known


def test_evidence_recall_by_hand(dialogues):
    # An embedding that knows the answer: questions and the turns that answer them share a direction.
    marks = {"greyhound": 0, "lighthouse": 1, "tomatoes": 2, "balcony": 2, "ribbon": 3, "dog win": 3}

    def embed(texts):
        table = np.full((len(texts), 5), 0.01)
        for row, text in zip(table, texts):
            for word, place in marks.items():
                row[place] += word in text
        return table

    table = evidence_recall(dialogues[:1], chunk=1, k=1, embed=embed, categories=(4,)).set_index("kind")
    assert table.loc["all", "questions"] == 4
    assert table.loc["all", "all_found"] == 1
    sizes = [count_tokens(f"{row.speaker}: {row.text}") for row in dialogues[0].turns.itertuples() if row.id in ("D1:1", "D1:6", "D3:1", "D3:4")]
    assert table.loc["all", "tokens"] == pytest.approx(np.mean(sizes))


def test_everything_is_found_when_everything_is_read(dialogues):
    for chunk, k in ((1, 50), (1_000, 1), (20, 99)):
        table = evidence_recall(dialogues, chunk=chunk, k=k)
        assert (table.all_found == 1).all() and (table.share_found == 1).all()
    assert table.kind.tolist() == ["multi-hop", "temporal", "single-hop", "all"]
    assert table.questions.iloc[-1] == table.questions.iloc[:-1].sum() == 11


def test_more_chunks_find_more(dialogues):
    found = [evidence_recall(dialogues, chunk=10, k=k).share_found.iloc[-1] for k in range(1, 12)]
    assert (np.diff(found) >= 0).all() and found[-1] == 1 and found[0] > 0.5


def test_hashed_tfidf():
    corpus = ["the cat sat on the mat", "the dog sat on the log", "a violin in the window"]
    embed = hashed_tfidf(corpus)
    vectors = embed(corpus)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.argmax(embed(["where is the violin"]) @ vectors.T) == 2
    assert np.argmax(embed(["The DOG!"]) @ vectors.T) == 1
    assert not embed(["xylophone"]).any() or np.isfinite(embed(["xylophone"])).all()
    # By hand: "cat" once, in one of three texts; "sat" once, in two.
    table = embed(["cat sat"])[0]
    weights = sorted(table[table > 0])
    assert weights[0] / weights[1] == pytest.approx(np.log(4 / 3) / np.log(4 / 2), rel=1e-5)


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", '{"a": 1}', '[{"conversation": {"speaker_a": "A"}}]'])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "locomo10.json"
    path.write_text(text)
    with pytest.raises(ValueError):
        read_locomo(path)


def test_no_file_says_where_to_find_one(tmp_path):
    with pytest.raises(ValueError, match="locomo10.json"):
        read_locomo(tmp_path / "locomo10.json")


def test_one_conversation_may_stand_alone(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(json.loads(TINY.read_text())[1]))
    assert [dialogue.name for dialogue in read_locomo(path)] == ["tiny-2"]


@pytest.mark.parametrize("bad", [{"chunk": 0}, {"k": 0}, {"k": 2.0}, {"categories": (3,)}])
def test_impossible_questions_to_the_data(dialogues, bad):
    with pytest.raises(ValueError):
        evidence_recall(dialogues, **bad)


@pytest.mark.parametrize("spoil, says", [
    (lambda sample: sample.update(conversation=[]), "tiny-1: conversation must be an object"),
    (lambda sample: sample["conversation"].update(session_1="text"), "tiny-1: session_1 must be a list; got 'text'"),
    (lambda sample: sample["conversation"]["session_1"].insert(1, None), "tiny-1: session_1, turn 2 must be an object"),
    (lambda sample: sample["conversation"]["session_1"][0].pop("dia_id"), "session_1, turn 1: dia_id must be a text; got None"),
    (lambda sample: sample["conversation"]["session_1"][0].update(speaker=5), "turn 1: speaker must be a text; got 5"),
    (lambda sample: sample["conversation"]["session_1"][0].update(text=[1]), "turn 1: text must be a text"),
    (lambda sample: sample.update(qa=5), "tiny-1: qa must be a list"),
    (lambda sample: sample["qa"].insert(0, "what"), "tiny-1: question 1 must be an object"),
    (lambda sample: sample["qa"][0].pop("question"), "question 1: question must be a text"),
    (lambda sample: sample["qa"][0].update(category=9), "question 1: category must be one of 1, 2, 3, 4, 5; got 9"),
    (lambda sample: sample["qa"][0].update(category=1.5), "question 1: category must be one of"),
    (lambda sample: sample["qa"][0].pop("category"), "question 1: category must be one of 1, 2, 3, 4, 5; got None"),
    (lambda sample: sample["qa"][0].update(evidence=5), "question 1: evidence must be a list"),
])
def test_a_damaged_conversation_says_where(tmp_path, spoil, says):
    samples, path = json.loads(TINY.read_text()), tmp_path / "locomo.json"
    spoil(samples[0])
    path.write_text(json.dumps(samples))
    with pytest.raises(ValueError, match=says):
        read_locomo(path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"9" * 5_000, b"\xff\xfe"])
def test_a_file_that_cannot_be_json(tmp_path, content):
    path = tmp_path / "locomo.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="locomo.json is not a JSON file"):
        read_locomo(path)


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = tmp_path / "locomo.json"
    path.write_bytes(b"\xef\xbb\xbf" + TINY.read_bytes())
    assert len(read_locomo(path)) == 2
