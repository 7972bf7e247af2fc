"""The playbook: its text form, the laws of merging, de-duplication, the budget, and one task through the roles."""

import doctest
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labkit import ace
from labkit.ace import Bullet, Delta, Playbook, bag_of_words, cosines
from labkit.ace_delta import OPERATIONS
from labkit.ace_playbook import CHANGES

quick = settings(max_examples=150, deadline=None)

# --- odd but legal books and text ------------------------------------------------------------------------------------

odd = st.sampled_from(["::", "a :: b", "[sai-00001]", "helpful=1 harmful=2 :: x", "## NOT A HEADING", "中文：单位换算", "要点 [1]",
                       "{\"a\": 1}", "\\d+\\n", "| pipe", "    | x", "<!-- next id 00009 -->", "😀", "def f():\n    return [1]\n\nf()"])
texts = odd | st.text(max_size=30)
names = st.sampled_from(["OTHERS", "STRATEGIES & INSIGHTS", "公式", "A: B", "[x]", "#", "x ## y", "::"]) | st.text(max_size=12).filter(
    lambda name: "\n" not in name and "\r" not in name)
slugs = st.sampled_from(["sai", "calc", "misc", "公式", "x-y"])
counters = st.integers(0, 5) | st.integers(0, 10**40)


@st.composite
def books(draw, most=8):
    numbers = draw(st.lists(st.integers(1, 120_000), unique=True, max_size=most))
    bullets = [Bullet(f"{draw(slugs)}-{n:05d}", draw(names), draw(texts), draw(counters), draw(counters)) for n in numbers]
    return Playbook(bullets, draw(st.lists(names, max_size=4)), draw(st.integers(1, 130_000)))


@quick
@given(books())
def test_rendering_then_parsing_gives_the_same_playbook(book):
    again = Playbook.parse(book.render())
    assert again == book and not again.problems and again.render() == book.render()
    assert Playbook.parse(book.render().replace("\n", "\r\n")) == book


@quick
@given(books())
def test_the_other_rendering_keeps_counters_in_metadata(book):
    bare = book.render(counters=False)
    assert replace(Playbook.parse(bare, counters=book.counters), next_id=book.next_id) == book
    tagged = book.merge(Delta(tags={bullet.id: "helpful" for bullet in book.bullets}))
    assert tagged.render(counters=False) == bare  # a vote leaves this prompt as it was
    assert (tagged.render() == book.render()) == (not book.bullets)


lines = st.sampled_from(["## A", "## ", "###x", "##A", "", "   ", "prose", "[sai-00001] helpful=1 harmful=0 :: ok", "[sai-1] helpful=1 harmful=0 :: id",
                         "[sai-00002] helpful=x harmful=0 :: x", "[sai-00002] helpful=-1 harmful=0 :: x", "    | more", "    |", "    | ## A",
                         "[sai-00002] no counters", "  [sai-00003]   helpful=2  harmful=1::tight", "[sai-00003] :: bare",
                         "[a-00004] helpful=" + "9" * 5_000 + " harmful=0 :: huge", "<!-- next id 00077 -->", "<!-- x -->"]) | st.text(max_size=15)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_text_is_read_and_nothing_is_lost(rows, end):
    text = end.join(rows)
    book = Playbook.parse(text)
    rendered = book.render()
    assert Playbook.parse(rendered) == book
    for problem in book.problems:
        at = problem.text.split("\n")[0]
        assert text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")[problem.line - 1] == at
    squeeze = lambda text: "".join(sorted("".join(text.split())))  # noqa: E731
    if not any(word in text for word in ("##", "next id", "[", "|", "\ufeff")):
        assert squeeze(rendered) == squeeze(text)  # every sign is still there


def test_malformed_lines_are_reported_with_their_number_and_kept():
    text = "# My notes\n## A\n[sai-00001] helpful=1 harmful=0 :: good\n[sai-2] helpful=1 harmful=0 :: short id\nfree text\n"
    book = Playbook.parse(text)
    assert [problem.line for problem in book.problems] == [1, 4, 5]
    assert len(book) == 1 and all(line in book.render().split("\n") for line in text.split("\n"))
    assert "short id" in str(book.problems[1]) and str(book.problems[1]).startswith("line 4: ")
    with pytest.raises(ValueError, match="line 1: .*\nline 4: .*\nline 5: "):
        Playbook.parse(text, strict=True)
    grown = book.merge(Delta([{"type": "ADD", "section": "a", "content": "new"}])).deduplicate().within(100)
    assert "[sai-2] helpful=1 harmful=0 :: short id" in grown.render()


def test_an_id_that_is_taken_is_replaced_and_reported():
    book = Playbook.parse("[sai-00001] helpful=1 harmful=0 :: one\n[sai-00001] helpful=0 harmful=2 :: two\n[x-00007] :: x")
    assert [bullet.id for bullet in book.bullets] == ["sai-00001", "sai-00008", "x-00007"]
    assert book.problems[0].line == 2 and "sai-00008" in book.problems[0].reason
    assert book.bullets[1].harmful == 2


def test_the_public_form_byte_for_byte():
    text = "## STRATEGIES & INSIGHTS\n[sai-00001] helpful=3 harmful=0 :: Check units: a [km] is not a [mi].\n\n## EMPTY\n\n## OTHERS\n[misc-00002] helpful=0 harmful=1 :: 先读报错。\n"
    book = Playbook.parse(text)
    assert book.render() == text and book.sections == ("STRATEGIES & INSIGHTS", "EMPTY", "OTHERS")
    assert book["misc-00002"] == Bullet("misc-00002", "OTHERS", "先读报错。", 0, 1)
    with pytest.raises(ValueError, match="counters: there is no bullet a-00001"):
        Playbook.parse(text, counters={"a-00001": (1, 1)})
    assert book.render(counters=False).split("\n")[1] == "[sai-00001] :: Check units: a [km] is not a [mi]."


# --- deltas ----------------------------------------------------------------------------------------------------------


def test_a_curators_answer():
    book = Playbook.empty()
    answer = {"reasoning": "units", "operations": [
        {"type": "ADD", "section": "formulas_and_calculations", "content": "speed = way / time"},
        {"type": "ADD", "section": "Weather", "content": "It may rain."}, {"type": "ADD", "content": "No section."}]}
    for form in (answer, json.dumps(answer), "Here it is:\n```json\n" + json.dumps(answer, indent=2) + "\n```\nDone."):
        delta = Delta.parse(form)
        assert delta == Delta.parse(answer) and not delta.problems and delta.reasoning == "units"
        after = book.merge(form)
        assert [(b.id, b.section) for b in after.bullets] == [
            ("calc-00001", "FORMULAS & CALCULATIONS"), ("misc-00002", "OTHERS"), ("misc-00003", "OTHERS")]
    assert len(book) == 0  # the old one is as it was


def test_a_reflectors_answer():
    book = Playbook.parse("[sai-00001] helpful=1 harmful=1 :: a\n[sai-00002] helpful=1 harmful=1 :: b\n[sai-00003] :: c")
    tags = [dict(id="sai-00001", tag="helpful"), dict(id="sai-00002", tag="harmful"), dict(id="sai-00003", tag="neutral")]
    after = book.merge({"reasoning": "", "key_insight": "x", "bullet_tags": tags})
    assert after.counters == {"sai-00001": (2, 1), "sai-00002": (1, 2), "sai-00003": (0, 0)}
    assert not after.problems


def test_update_merge_delete():
    book = Playbook.parse("".join(f"[sai-0000{n}] helpful={n} harmful=1 :: text {n}\n" for n in (1, 2, 3, 4)))
    after = book.merge({"operations": [
        {"type": "update", "bullet_id": "sai-00001", "content": "changed"},
        {"type": "MERGE", "source_ids": ["sai-00003", "sai-00002"], "content": "both"},
        {"type": "DELETE", "id": "sai-00004"}]})
    assert [(b.id, b.text, b.helpful, b.harmful) for b in after.bullets] == [("sai-00001", "changed", 1, 1), ("sai-00002", "both", 5, 2)]
    late = after.merge(Delta(tags={"sai-00003": "helpful", "sai-00004": "helpful"}))  # tags made before the merge
    assert late["sai-00002"].helpful == 6 and [p.reason for p in late.problems] == ["the bullet was deleted"]


def test_malformed_deltas_are_reported_with_their_line_and_the_rest_is_done():
    text = """{"reasoning": "say \\"operations\\": [",
 "operations": [
  {"type": "ADD", "section": "OTHERS", "content": "good"},
  {"type": "ADD", "section": "OTHERS"},
  {"type": "REWRITE", "content": "all"},
  {"type": "DELETE", "id": "sai-00009"}, "ADD"
 ],
 "bullet_tags": [
  {"id": "sai-00001", "tag": "great"}, {"id": "sai-00008", "tag": "helpful"}]}"""
    delta = Delta.parse(text)
    assert [problem.line for problem in delta.problems] == [4, 5, 6, 9]
    after = Playbook().merge(text)
    assert [bullet.text for bullet in after.bullets] == ["good"]
    assert sorted(problem.line for problem in after.problems) == [4, 5, 6, 6, 9, 9]
    assert '"REWRITE"' in after.problems[1].text  # nothing is lost: the problem holds it
    with pytest.raises(ValueError, match="line 4: ADD needs content"):
        Delta.parse(text, strict=True)
    with pytest.raises(ValueError, match="line 6: there is no bullet sai-00009"):
        Playbook().merge(text, strict=True)


@pytest.mark.parametrize("text, line, reason", [
    ('{"operations": [\n {"type": "ADD",,}]}', 2, "not JSON"), ("no json", 1, "no JSON object"), ("", 1, "no JSON object"),
    ('{"reasoning": "x"}', None, "neither"), ('{"operations": {"type": "ADD"}}', None, "must be a list"),
    ('{"bullet_tags": "none"}', None, "must be a list"), ('{"operations": [{"type": "MERGE", "ids": ["a-00001"]}]}', 1, "at least two"),
])  # fmt: skip
def test_answers_that_are_no_delta(text, line, reason):
    delta = Delta.parse(text)
    assert not delta.operations and delta.problems[0].line == line and reason in delta.problems[0].reason


def test_json_lines():
    text = '{"operations": []}\n\n{"operations": [{"type": "NO"}]}\r\n{"bullet_tags": []\n'
    deltas = Delta.parse_lines(text)
    assert [[problem.line for problem in delta.problems] for delta in deltas] == [[], [3], [4]]


@quick
@given(st.text(max_size=60) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from(["operations", "bullet_tags", "type", "id", "tag", "content", "ids"]), inner)).map(
        json.dumps))  # fmt: skip
def test_any_answer_is_read_without_an_exception(text):
    Playbook.empty().merge(text)


@pytest.mark.parametrize("make", [
    lambda: Delta([{"type": "ADD"}]), lambda: Delta([{"type": "ADD", "content": " "}]), lambda: Delta(tags={"a-00001": "good"}),
    lambda: Delta(["ADD"]), lambda: Bullet("sai-1", "A", "x"), lambda: Bullet("sai-00001", "A\nB", "x"),
    lambda: Bullet("sai-00001", "A", "x", -1), lambda: Bullet("sai-00001", "A", "x", True), lambda: Bullet("sai-00001", "A", None),
    lambda: Playbook([Bullet("a-00001", "A", "x"), Bullet("a-00001", "B", "y")]),
])  # fmt: skip
def test_impossible_objects(make):
    with pytest.raises(ValueError):
        make()


# --- laws of merging -------------------------------------------------------------------------------------------------


def base():
    return Playbook.parse("## A\n" + "".join(f"[sai-0000{n}] helpful={n} harmful=0 :: text {n}\n" for n in range(1, 7)) + "## OTHERS\n")


ids = st.sampled_from([f"sai-0000{n}" for n in range(1, 7)])
votes = st.dictionaries(ids, st.sampled_from(ace.TAGS), max_size=4)
adds = st.lists(st.builds(lambda section, content: {"type": "ADD", "section": section, "content": content},
                          st.sampled_from(["A", "a", "OTHERS", "?"]), st.sampled_from(["x", "y", "中"])), max_size=3)  # fmt: skip
conflicting = st.lists(
    st.builds(lambda id, text: {"type": "UPDATE", "id": id, "content": text}, ids, st.sampled_from(["new", "newer"]))
    | st.builds(lambda id: {"type": "DELETE", "id": id}, ids)
    | st.builds(lambda a, b: {"type": "MERGE", "ids": [a, b]}, ids, ids).filter(lambda op: len(set(op["ids"])) == 2), max_size=3)  # fmt: skip


def content(book):
    return sorted((b.section, b.text, b.helpful, b.harmful) for b in book.bullets)


@quick
@given(st.lists(st.builds(Delta, adds, votes), max_size=4), st.randoms())
def test_parallel_deltas_one_by_one_in_any_order(deltas, random):
    shuffled = random.sample(deltas, len(deltas))
    one, other = base(), base()
    for delta in deltas:
        one = one.merge(delta)
    for delta in shuffled:
        other = other.merge(delta)
    assert content(one) == content(other)
    assert len({bullet.number for bullet in one.bullets}) == len(one)


@quick
@given(st.lists(st.builds(lambda a, b, v: Delta(a + b, v), adds, conflicting, votes), max_size=4), st.randoms())
def test_parallel_deltas_given_together_in_any_order_even_if_they_conflict(deltas, random):
    assert base().merge(*deltas) == base().merge(*random.sample(deltas, len(deltas)))


def test_operations_on_different_bullets_commute():
    a = Delta([{"type": "UPDATE", "id": "sai-00001", "content": "new"}], {"sai-00003": "helpful"})
    b = Delta([{"type": "MERGE", "ids": ["sai-00002", "sai-00003"]}])
    c = Delta([{"type": "DELETE", "id": "sai-00004"}], {"sai-00001": "harmful"})
    results = [base().merge(x).merge(y).merge(z) for x, y, z in ((a, b, c), (c, b, a), (b, a, c), (b, c, a))]
    assert all(result == results[0] for result in results)


@quick
@given(st.lists(st.builds(lambda a, b: Delta(a + b), adds, conflicting), max_size=6))
def test_ids_are_never_used_again(deltas):
    book, seen = base(), {bullet.number for bullet in base().bullets}
    for delta in deltas:
        before = {bullet.number for bullet in book.bullets}
        book = Playbook.parse(book.merge(delta).render())  # saved and loaded in between
        new = {bullet.number for bullet in book.bullets} - before
        assert not new & seen
        seen |= new


def test_the_last_id_is_not_reused_after_its_deletion():
    book = base().merge(Delta([{"type": "DELETE", "id": "sai-00006"}]))
    for again in (book, Playbook.parse(book.render()), book.within(60)):
        assert again.merge(Delta([{"type": "ADD", "content": "x"}])).bullets[-1].id == "misc-00007"


def test_every_operation_has_its_change():
    assert set(CHANGES) == {"VOTE", *OPERATIONS}


# --- de-duplication and budget ---------------------------------------------------------------------------------------

WORDS = ["check", "units", "before", "adding", "columns", "读", "报错", "log"]
alike = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), max_size=10)


@quick
@given(alike, st.sampled_from([0.5, 0.7, 0.9, 1.0]), st.lists(st.integers(0, 9), min_size=10, max_size=10))
def test_deduplication(sentences, threshold, helpful):
    book = Playbook([Bullet(f"a-{n:05d}", "AB"[n % 2], text, helpful[n], n) for n, text in enumerate(sentences)])
    clean = book.deduplicate(threshold)
    left = cosines(bag_of_words([bullet.text for bullet in clean.bullets]))
    assert (left - np.eye(len(clean)) < threshold).all()
    for name in ("helpful", "harmful"):
        assert sum(getattr(b, name) for b in clean.bullets) == sum(getattr(b, name) for b in book.bullets)
    assert clean.deduplicate(threshold) == clean
    assert {b.id for b in clean.bullets} <= {b.id for b in book.bullets}
    if len(set(sentences)) < len(sentences):
        assert len(clean) < len(book)  # it acts
    for bullet in book.bullets:
        assert clean[bullet.id].number <= bullet.number  # an absorbed id still leads to its bullet


def test_deduplication_keeps_the_earliest_and_takes_any_embedding():
    book = Playbook.parse("## A\n[a-00005] helpful=1 harmful=0 :: later\n## B\n[b-00002] helpful=2 harmful=3 :: earlier")
    clean = book.deduplicate(embed=lambda texts: np.ones((len(texts), 3)))
    assert [(b.id, b.text, b.helpful, b.harmful) for b in clean.bullets] == [("b-00002", "earlier", 3, 3)]
    own = Playbook([replace(b, embedding=np.eye(2)[n]) for n, b in enumerate(book.bullets)])
    assert len(own.deduplicate()) == 2 and len(own.deduplicate(embed=lambda texts: np.ones((2, 2)))) == 1
    with pytest.raises(ValueError, match="only 1 of 2"):
        Playbook([own.bullets[0], replace(own.bullets[1], embedding=None)]).deduplicate()
    with pytest.raises(ValueError, match=r"shape \(2, d\)"):
        book.deduplicate(embed=lambda texts: np.ones(2))
    for threshold in (0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="threshold"):
            book.deduplicate(threshold)


def test_bag_of_words():
    vectors = bag_of_words(["Check the units", "the units: check!", "完全不同", "完全不一样", "..."])
    likeness = cosines(vectors)
    assert likeness[0, 1] == pytest.approx(1) and likeness[0, 2] == 0 and 0.5 < likeness[2, 3] < 0.9
    assert (likeness[4] == 0).all()
    np.testing.assert_array_equal(vectors[0], bag_of_words(["Check the units"])[0])  # the same in every run


@quick
@given(books(), st.integers(0, 120), st.booleans())
def test_the_budget_is_never_exceeded(book, budget, counters):
    try:
        small = book.within(budget, counters)
    except ValueError:
        assert counters and budget < 8  # not even the next id has room
        return
    assert small.tokens(counters) <= budget
    kept = {b.id for b in small.bullets}
    worst_kept = min((b.score for b in small.bullets), default=np.inf)
    assert all(b.score <= worst_kept for b in book.bullets if b.id not in kept)
    assert small.within(budget, counters) == small
    if book.tokens(counters) <= budget:
        assert small == book


def test_a_budget_takes_any_count_of_tokens_and_drops_the_worst_first():
    book = base().merge(Delta(tags={"sai-00001": "harmful"}))
    assert [b.number for b in book.within(14, count=lambda text: len(text.split())).bullets] == [6]
    words = book.tokens(count=lambda text: len(text.split()))
    assert [b.number for b in book.within(words - 1, count=lambda text: len(text.split())).bullets] == [2, 3, 4, 5, 6]
    with pytest.raises(ValueError, match="too small"):
        Playbook.parse("a line of prose that cannot be read").within(3)
    with pytest.raises(ValueError, match="budget"):
        book.within(-1)


def test_high_and_problematic():
    book = Playbook.parse("[a-00001] helpful=6 harmful=1 :: x\n[a-00002] helpful=0 harmful=1 :: y\n[a-00003] :: z")
    assert [b.high for b in book.bullets] == [True, False, False]
    assert [b.problematic for b in book.bullets] == [False, True, False]
    assert [b.number for b in book.prune().bullets] == [1, 3]


# --- one task through the roles --------------------------------------------------------------------------------------


def generator(task, book):
    used = [bullet for bullet in book.bullets if task in bullet.text]
    return ace.Attempt("solved" if used else "failed", {bullet.id: "helpful" for bullet in used})


def reflector(task, attempt, feedback, book, previous):
    return {"key_insight": f"how to do {task}", "failed": not feedback, "rounds": (previous or {"rounds": 0})["rounds"] + 1}


def curator(task, reflection, book):
    if reflection["failed"]:
        return json.dumps({"reasoning": "", "operations": [{"type": "ADD", "section": "OTHERS", "content": reflection["key_insight"]}]})


def judge(task, attempt):
    return attempt.answer == "solved"


def test_a_lesson_is_learned_once_and_then_helps():
    book = Playbook.empty()
    steps = []
    for task in ("sort", "sum", "sort", "sort"):
        steps.append(ace.run_task(generator, reflector, curator, book, task, judge, rounds=3))
        book = steps[-1].playbook
    assert [step.feedback for step in steps] == [False, False, True, True]
    assert [(b.id, b.text, b.helpful) for b in book.bullets] == [("misc-00001", "how to do sort", 2), ("misc-00002", "how to do sum", 0)]
    assert [len(step.reflections) for step in steps] == [3] * 4 and not any(step.problems for step in steps)
    assert steps[1].shown == steps[0].playbook


def test_the_reflector_outvotes_the_generator():
    book = Playbook.parse("[a-00001] :: sort")
    step = ace.run_task(generator, lambda *a: {"bullet_tags": [{"id": "a-00001", "tag": "harmful"}]}, lambda *a: None, book, "sort")
    assert step.playbook.counters == {"a-00001": (0, 1)} and step.feedback is None


def test_without_a_reflector_the_curator_reads_the_attempt():
    seen = []
    ace.run_task(generator, None, lambda task, attempt, book: seen.append(attempt.answer), Playbook(), "x")
    assert seen == ["failed"]


def test_reflection_stops_where_it_changes_nothing():
    step = ace.run_task(generator, lambda *a: "the same", lambda *a: None, Playbook(), "x", rounds=5)
    assert step.reflections == ("the same", "the same")


@pytest.mark.parametrize("refine, left", [("lazy", 2), ("always", 1), ("never", 2)])
def test_when_to_deduplicate(refine, left):
    book = Playbook.parse("## OTHERS\n[misc-00001] helpful=2 harmful=0 :: read the log")
    learn = lambda *a: {"operations": [{"type": "ADD", "section": "OTHERS", "content": "Read the log!"}]}  # noqa: E731
    run = lambda budget: ace.run_task(generator, None, learn, book, "x", refine=refine, budget=budget).playbook  # noqa: E731
    assert len(run(1_000)) == left
    tight = run(book.tokens() + 6)  # room for the next id beside
    assert tight.tokens() <= book.tokens() + 6 and [b.id for b in tight.bullets] == ["misc-00001"]


def test_what_a_role_gets_wrong_is_reported():
    step = ace.run_task(generator, None, lambda *a: '{"operations": [\n{"type": "ADD"}]}', Playbook(), "x")
    assert [problem.line for problem in step.problems] == [2]
    with pytest.raises(ValueError, match="refine must be one of"):
        ace.run_task(generator, None, curator, Playbook(), "x", refine="often")
    with pytest.raises(ValueError, match="rounds"):
        ace.run_task(generator, None, curator, Playbook(), "x", rounds=0)


def test_the_examples_in_the_docstring():
    assert doctest.testmod(ace).failed == 0


@pytest.mark.parametrize("call, says", [
    (lambda: Playbook.parse(None), "text must be a string"), (lambda: Playbook(sections="OTHERS"), "sections must be a sequence"),
    (lambda: Playbook(entries=["text"]), "entries must be Bullet or Unread"), (lambda: Playbook(next_id=float("nan")), "next_id must be a whole number"),
    (lambda: Playbook.empty().deduplicate("0.9"), "threshold must be a number above 0 and at most 1"), (lambda: Playbook.empty().within(None), "budget must be a number"),
    (lambda: Playbook.empty().merge(5), "source must be the text"), (lambda: Delta(5), "operations must be a list"), (lambda: Delta(tags="helpful"), "tags must be a dict"),
])
def test_arguments_of_a_wrong_kind_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
