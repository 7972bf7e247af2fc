"""The toy conversation: its rates, its vectors, its questions and its text, each against a second way."""

import numpy as np
import pandas as pd
import pytest

from labkit.conversation import Conversation, WorldSettings, conversations
from labkit.conversation_text import KEYS, person_name
from labkit.conversation_world import FIRST_ROLE, N_KEYS, STATEMENT, draw_events, draw_versions


@pytest.fixture(scope="module")
def world():
    return Conversation.generate(3)


@pytest.fixture(scope="module")
def many():
    return conversations(60)


def test_shapes_and_order(world):
    assert len(world.messages) == world.turns == 600
    assert world.embeddings.shape == (600, 256)
    assert world.memory_embeddings.shape == (len(world.statements), 256)
    assert world.question_embeddings.shape == (len(world.questions), 256)
    for vectors in (world.embeddings, world.memory_embeddings, world.question_embeddings):
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert world.tokens.min() >= 10 and world.tokens.max() <= 76
    assert (np.diff(world.statement_turn) > 0).all()
    assert list(world.messages.columns) == ["turn", "speaker", "text", "tokens", "kind"]
    assert list(world.questions.columns[:3]) == ["kind", "key", "text"]


def test_same_seed_same_world_and_a_generator_will_do():
    one, two, three = Conversation.generate(7), Conversation.generate(7), Conversation.generate(np.random.default_rng(7))
    for other in (two, three):
        assert np.array_equal(one.embeddings, other.embeddings)
        assert np.array_equal(one.draws.overlook, other.draws.overlook)
        pd.testing.assert_frame_equal(one.messages, other.messages)
    assert not np.array_equal(one.embeddings, Conversation.generate(8).embeddings)


def test_text_never_touches_the_luck():
    read_first, not_read = Conversation.generate(5), Conversation.generate(5)
    texts = read_first.messages.text.tolist()
    assert np.array_equal(read_first.draws.save, not_read.draws.save)
    assert not_read.questions is not None and not_read.messages.text.tolist() == texts  # whatever is asked for first


def test_rates(many):
    # Poisson means by hand: 8 + 8 E[max(1, P(1.8))] + 4 x 1.1 further versions, 1.65 statements of each that can change.
    changes = 1.8 + np.exp(-1.8)
    statements = 8 + 8 * (1 + changes) * 1.65 + 4 * 2.1 * 1.65
    people = 4 * 2.1
    kinds = pd.concat([world.messages.kind for world in many]).value_counts() / len(many)
    expected = {"statement": statements, "person fact": 2 * people, "topic noise": 20 * 9, "person noise": 4 * people}
    for kind, mean in expected.items():
        assert kinds[kind] == pytest.approx(mean, rel=0.06), kind
    questions = pd.concat([world.questions for world in many]).kind.value_counts() * 10 / len(many)
    assert questions["current"] == 200 and questions["two-hop"] == 80
    assert questions["previous"] == pytest.approx(10 * (8 + 4 * (1 - np.exp(-1.1))), abs=4)
    assert np.mean([world.tokens.mean() for world in many]) == pytest.approx(43, abs=0.5)


def test_statements_stand_while_their_value_is_valid():
    rng = np.random.default_rng(11)
    settings, turns = WorldSettings(), 1_200
    versions = draw_versions(rng, turns / 600, settings)
    for key in range(N_KEYS):
        mine = versions.key == key
        assert np.array_equal(versions.index[mine], np.arange(mine.sum()))
        assert np.array_equal(versions.end[mine], [*versions.start[mine][1:], 1.0])
        assert key < 8 or versions.start[mine][0] < 0.15 / 2
    events = draw_events(rng, versions, turns, settings)
    assert len(events) == turns
    for version, (start, end) in enumerate(zip(versions.start, versions.end)):
        times = [time for time, kind, subject, _ in events if kind == STATEMENT and subject == version]
        assert min(times) == start and max(times) <= end


def test_cosines_are_those_of_the_recipe(many):
    # A question on a key (query T, noise 0.3) and the memory of a statement (T + 0.8 v, noise 0.4): the mean cosine.
    expected = 1 / np.sqrt(1 + 0.8**2) / np.sqrt(1 + 0.3**2) / np.sqrt(1 + 0.4**2)
    messages = 1 / np.sqrt(1 + 0.8**2) / np.sqrt(1 + 0.3**2) / np.sqrt(1 + 0.8**2)
    of_memory, of_message = [], []
    for world in many[:20]:
        rows, columns = np.nonzero(world.needs[0] & (world.question_kind == 0)[:, None])
        of_memory += world.question_memory_similarity[rows, columns].tolist()
        of_message += world.question_message_similarity[rows, world.statement_turn[columns]].tolist()
    assert np.mean(of_memory) == pytest.approx(expected, abs=0.01)
    assert np.mean(of_message) == pytest.approx(messages, abs=0.01)


def test_neighbours_are_sorted_and_earlier(world):
    similarity = world.memory_embeddings @ world.memory_embeddings.T
    for number, order in enumerate(world.memory_neighbours):
        assert sorted(order) == list(range(number))
        assert (np.diff(similarity[number, order]) <= 0).all()


def ideal_reader(world, question, read):
    """The reader as a story: of the different values of a key among the statements read, the last told is current."""
    told = world.statements.iloc[sorted(read)]
    row = world.questions.loc[question]
    values = list(dict.fromkeys(told.value[told.key == row.key][::-1]))  # newest first
    if row.kind == "current":
        return values[0] if values else None
    if row.kind == "previous":
        return values[1] if len(values) > 1 else None
    relation = {"Where": "home town", "What ": "job"}[row.text[:5]]
    facts = told[told.key == f"{values[0]}: {relation}"] if values else told[:0]
    return facts.value.iloc[0] if len(facts) else None


def test_needs_say_what_the_ideal_reader_says(world):
    rng = np.random.default_rng(0)
    count = len(world.statements)
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        for question in range(len(world.questions)):
            read = np.flatnonzero(rng.random(count) < share)
            enough = all(np.isin(read, np.flatnonzero(group[question])).any() for group in world.needs)
            answer = ideal_reader(world, question, read)
            row = world.questions.loc[question]
            if row.kind == "two-hop":  # a former partner may come from the same town: luck is not knowledge
                assert not enough or answer == row.answer
            else:
                assert enough == (answer == row.answer)


def test_statements_contain_their_value_and_noise_does_not(world):
    messages, statements = world.messages, world.statements
    for row in statements.itertuples():
        assert row.value in messages.text[row.turn] and row.value in row.text
    for key in KEYS[:FIRST_ROLE]:
        values = set(statements.value[statements.key == key.name])
        noise = messages.text[messages.kind == "topic noise"]
        assert not any(f" {value} " in f" {text} " for text in noise for value in values)
    for kind, most in (("small talk", 0.75), ("topic noise", 0.6)):
        assert messages.text[messages.kind == kind].value_counts(normalize=True).iloc[0] < 0.1
        assert messages.text[messages.kind == kind].duplicated().mean() < most
    assert not messages.text.str.contains(r"[{}]").any() and not world.questions.text.str.contains(r"[{}]").any()


def test_names_and_towns_differ_between_seeds(many):
    assert len({world.speakers for world in many}) > 20
    assert all(user != other for user, other in (world.speakers for world in many))
    towns = [world.statements.value[world.statements.key == "city"].iloc[0] for world in many]
    assert len(set(towns)) > 20
    assert len({person_name(number, range(50)) for number in range(45)}) == 45


def test_values_never_repeat_within_a_key():
    long = Conversation.generate(1, turns=4_800)
    for key, group in long.statements.groupby("key"):
        assert group.value.nunique() == group.version.nunique(), key


def test_scripted():
    world = Conversation.scripted([("dish", "pizza", "I love pizza."), ("city", "Ghent"), ("dish", "no pizza", "I hate pizza.")])
    assert world.messages.text.tolist()[::2] == ["I love pizza.", "I hate pizza."]
    assert "Ghent" in world.messages.text[1]
    assert world.questions[["kind", "key", "answer"]].values.tolist() == [
        ["current", "city", "Ghent"], ["current", "dish", "no pizza"], ["previous", "dish", "pizza"]]


@pytest.mark.parametrize("script", [[], [("shoe size", "43")], [("dish", "a"), ("dish", "b"), ("dish", "a")]])
def test_impossible_scripts(script):
    with pytest.raises(ValueError, match="script"):
        Conversation.scripted(script)


@pytest.mark.parametrize("bad", [
    {"changes": -1}, {"message_noise": float("nan")}, {"tokens_min": 0}, {"tokens_max": 5}, {"dimensions": 2.5},
    {"restatements": True}, {"first_by": 2}, {"value_weight": "0.8"}, {"person_messages": float("inf")},
])
def test_impossible_settings(bad):
    with pytest.raises(ValueError, match=f"WorldSettings.{next(iter(bad))} must be"):
        WorldSettings(**bad)


@pytest.mark.parametrize("turns", [0, -600, 199, 600.0, True, "600"])
def test_impossible_turns(turns):
    with pytest.raises(ValueError, match="turns must be"):
        Conversation.generate(0, turns)


def test_too_much_for_so_few_turns():
    with pytest.raises(ValueError, match="too few"):
        Conversation.generate(0, 600, WorldSettings(topic_messages=60))


def test_short_and_odd_lengths():
    for turns in (200, 333):
        world = Conversation.generate(2, turns)
        assert len(world.messages) == turns and world.needs.any(axis=2).all()
