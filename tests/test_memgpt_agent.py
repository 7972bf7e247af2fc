"""The virtual context: its functions, its queue manager, its price, and the failures it must not have."""

import doctest
import inspect
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import memgpt_agent
from labkit.memgpt_agent import AGENT_LAYOUTS, Agent, AgentSettings, tokenize
from labkit.memgpt_demos import (
    EX,
    TALK,
    conversation_demo,
    james_edit,
    james_policy,
    nested_lookup,
    paged_search,
    run_session,
)
from labkit.memgpt_functions import FUNCTIONS, Block, Call, Storage, tool_schemas
from labkit.memgpt_serving import ServeSettings, serve_session
from labkit.memgpt_session import even_session
from labkit.prefix_cache import BlockCache, RadixCache


def scripted(*outputs):
    """A policy that gives these outputs in turn, then replies "done" for ever."""
    left = list(outputs)
    return lambda view: left.pop(0) if left else Call("send_message", message="done")


def contents(agent):
    """All that a failed call must leave as it was."""
    return dict(agent.memory.blocks), list(agent.memory.archival.texts)


# --- one mechanism with the serving study -------------------------------------------------------


@pytest.mark.parametrize(
    "options, pins",
    [
        (dict(), dict(new=78_340, edit=385_880, evict=43_620, moved=0)),
        (dict(layout="end"), dict(new=81_540, edit=0, evict=56_920, moved=525_000)),
        (dict(layout="append"), dict(new=83_340, edit=0, evict=59_680, moved=0)),
        (dict(credit_output=True), dict(new=40_840, edit=385_880, evict=43_620, moved=0)),
    ],
)
def test_the_agent_costs_what_the_serving_study_says_on_the_even_session(options, pins):
    result, agent = run_session(even_session(), ServeSettings(**options))
    assert result.prefill == pins
    assert result.calls == 770 == len(agent.history)
    assert result == serve_session(even_session(), ServeSettings(**options))


TURN = st.fixed_dictionaries(
    {"user": st.integers(1, 60), "reply": st.integers(1, 90), "save": st.booleans(), "hits": st.integers(0, 150)}
)
SIZES = {name: st.integers(0, 40) for name in ("system", "summary", "call", "warning", "note")}
SERVE = st.builds(
    ServeSettings,
    window=st.integers(60, 900),
    warn=st.one_of(st.floats(0, 1), st.sampled_from([0.5, 0.7, 1.0])),
    evict=st.one_of(st.floats(0, 1), st.sampled_from([0.1, 0.5, 0.75])),
    working=st.integers(1, 60),
    result=st.integers(1, 20),  # 0 could make a call that adds nothing: see run_session
    layout=st.sampled_from(sorted(AGENT_LAYOUTS)),
    credit_output=st.booleans(),
    **SIZES,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(TURN, max_size=30), SERVE)
def test_the_agent_costs_what_the_serving_study_says(session, serve):
    try:
        expected = serve_session(session, serve)
    except ValueError as error:
        turn = re.search(r"turn (\d+)", str(error))[1]
        with pytest.raises(ValueError, match=f"turn {turn} "):
            run_session(session, serve)
        return
    result, _ = run_session(session, serve)
    assert result == expected
    assert (result.calls_table.to_numpy() == expected.calls_table.to_numpy()).all()


def test_an_infinite_radix_cache_hits_the_same():
    def cached(cache):
        agent = Agent(scripted(*[Call("send_message", message=f"reply {i}") for i in range(40)]), cache=cache)
        for i in range(40):
            agent.user(f"message {i}")
        return agent.trace["cached"].tolist()

    assert cached(RadixCache()) == cached(None)


# --- functions ----------------------------------------------------------------------------------

FAILING = {
    "unknown function": Call("core_memory_delete", label="human"),
    "name is not text": Call(3),
    "missing argument": Call("core_memory_append", label="human"),
    "extra argument": Call("send_message", message="hi", mood="good"),
    "text wanted": Call("archival_memory_insert", content=7),
    "number wanted": Call("archival_memory_search", query="tea", page="1"),
    "a bool is no number": Call("archival_memory_search", query="tea", page=True),
    "heartbeat is a bool": Call("send_message", message="hi", request_heartbeat="yes"),
    "unknown block": Call("core_memory_append", label="animal", content="cat"),
    "block full": Call("core_memory_append", label="human", content="x" * 60),
    "block full by replace": Call("core_memory_replace", label="human", old_content="tea", new_content="x" * 60),
    "old text not found": Call("core_memory_replace", label="human", old_content="Tea", new_content="coffee"),
    "old text empty": Call("core_memory_replace", label="human", old_content="", new_content="coffee"),
    "read-only block": Call("core_memory_append", label="rules", content="none"),
    "empty text": Call("archival_memory_insert", content=" "),
    "empty reply": Call("send_message", message=""),
    "empty query": Call("conversation_search", query=""),
    "page too high": Call("archival_memory_search", query="tea", page=1),
    "page below 0": Call("archival_memory_search", query="tea", page=-1),
    "page of nothing": Call("conversation_search", query="zebra", page=1),
    "not a call": 42,
    "nothing": None,
    "plain talk": "I would rather talk.",
    "JSON, no call": "[1, 2]",
    "no name": {"arguments": {}},
    "arguments are a list": {"name": "send_message", "arguments": ["hi"]},
    "arguments are broken JSON": {"name": "send_message", "arguments": "{"},
    "endless nesting": "[" * 100_000,
    "endless nesting of arguments": {"name": "send_message", "arguments": "[" * 100_000},
    "a name that is no text": {"name": ["send_message"], "arguments": {}},
    "no name at all": Call(None),
}


@pytest.mark.parametrize("output", FAILING.values(), ids=FAILING.keys())
def test_a_failed_call_changes_nothing_is_told_and_costs_one_more_call(output):
    blocks = {"human": Block("Likes tea.", limit=50), "rules": Block("Be kind.", read_only=True)}
    agent = Agent(scripted(output), blocks=blocks)
    agent.memory.archival.insert("tea is in the cupboard")
    before = contents(agent)
    assert agent.user("hello") == ["done"]
    assert contents(agent) == before
    assert agent.trace["ok"].tolist() == [False, True]
    assert agent.trace["event"].tolist() == ["user message", "error"]
    assert [message.kind for message in agent.queue] == ["user", "call", "error", "reply"]
    assert agent.queue[2].text.startswith("Error: ")


def test_the_policy_sees_the_error():
    seen = []

    def policy(view):
        seen.append(view.last)
        return Call("send_message", message="sorry") if seen[-1] else Call("sing")

    Agent(policy).user("sing!")
    assert "no function 'sing'" in seen[1].text and not seen[1].ok


def test_an_exception_in_the_policy_itself_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        Agent(lambda view: 1 / 0).user("hello")


def test_an_exception_in_the_policy_lets_go_of_the_cache():
    cache = BlockCache(blocks=40)
    failing = Agent(lambda view: 1 / 0, cache=cache)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            failing.user("hello")
    assert not cache.start(list(range(600))).refused


def test_memory_is_changed_by_functions():
    beat = dict(request_heartbeat=True)
    agent = Agent(
        scripted(
            Call("core_memory_append", label="human", content="Name: Mei", **beat),
            Call("core_memory_append", label="human", content="Likes tea", **beat),
            Call("core_memory_replace", label="human", old_content="tea", new_content="coffee", **beat),
            Call("core_memory_replace", label="human", old_content="Name: Mei\n", new_content="", **beat),
            Call("archival_memory_insert", content="The key is under the stone.", **beat),
            Call("archival_memory_search", query="KEY", **beat),
        )
    )
    assert agent.user("go") == ["done"]
    assert agent.memory.blocks["human"].value == "Likes coffee"
    assert agent.memory.archival.texts == ["The key is under the stone."]
    assert agent.queue[-2].text.endswith("The key is under the stone.")
    assert agent.trace["event"].tolist() == ["user message"] + ["heartbeat"] * 6
    assert len(agent.memory.recall) == len(agent.queue)


FORMS = [
    Call("send_message", message="hi"),
    {"name": "send_message", "arguments": {"message": "hi"}},
    {"name": "send_message", "arguments": json.dumps({"message": "hi"})},
    {"type": "function", "function": {"name": "send_message", "arguments": '{"message": "hi"}'}},
    '{"name": "send_message", "arguments": {"message": "hi", "request_heartbeat": false}}',
]


@pytest.mark.parametrize("output", FORMS)
def test_a_call_may_come_in_the_forms_that_models_write(output):
    assert Agent(scripted(output)).user("hello") == ["hi"]


def test_the_tools_describe_every_function():
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tool_schemas()}
    assert tools.keys() == FUNCTIONS.keys()
    assert tools["archival_memory_search"]["required"] == ["query"]
    assert tools["core_memory_append"]["properties"]["request_heartbeat"] == {"type": "boolean"}


@given(st.lists(st.sampled_from(["tea", "milk", "tea and milk", "water"])), st.integers(1, 4))
def test_pages_are_a_partition_of_what_is_found_best_and_newest_first(texts, page_size):
    storage = Storage(page_size)
    numbered = [f"{i} {text}" for i, text in enumerate(texts)]
    for text in numbered:
        storage.insert(text)
    both = [t for t in reversed(numbered) if "and" in t]
    one = [t for t in reversed(numbered) if "and" not in t and "water" not in t]
    pages = storage.search("Tea milk").pages
    items = [item for page in range(pages) for item in storage.search("Tea milk", page).items]
    assert items == both + one
    assert pages == -(-len(items) // page_size)


# --- events and heartbeats ----------------------------------------------------------------------


def test_without_a_heartbeat_the_run_ends_and_with_one_it_goes_on():
    agent = Agent(scripted(Call("archival_memory_insert", content="x")))
    assert agent.user("hello") == [] and len(agent.trace) == 1
    agent = Agent(scripted(Call("send_message", message="wait", request_heartbeat=True)))
    assert agent.user("hello") == ["wait", "done"]


def test_a_timer_runs_the_model_too():
    agent = Agent(lambda view: Call("send_message", message=f"{view.event_kind}: {view.event}"))
    assert agent.timer("Eight o'clock.") == ["timer: Eight o'clock."]
    assert agent.trace["event"].tolist() == ["timer"]
    for nothing in ("", None, 3):
        with pytest.raises(ValueError, match="an event is a text"):
            agent.user(nothing)


def test_a_policy_that_never_stops_is_stopped_and_told():
    calls = []

    def policy(view):
        calls.append(view)
        return Call("archival_memory_search", query="more", request_heartbeat=True)

    agent = Agent(policy, AgentSettings(max_calls=7))
    assert agent.user("hello") == [] and len(calls) == 7
    assert agent.queue[-1].kind == "error" and "7 calls" in agent.queue[-1].text
    agent.user("again")  # the agent is usable, and the model reads why the run ended
    assert "run ended: 7 calls" in calls[7].prompt


def test_a_view_cannot_change_the_main_context():
    def policy(view):
        with pytest.raises(TypeError):
            view.blocks["human"] = "mine"
        with pytest.raises(AttributeError):
            view.messages.append("mine")
        with pytest.raises(AttributeError):
            view.event = "mine"
        return Call("send_message", message=str(view.tokens))

    agent = Agent(policy)
    assert agent.user("hello") == [str(agent.trace["prompt"][0])]


# --- the queue manager, and the failures of real systems ----------------------------------------

SMALL = dict(window=100, summary=10)


def small_agent(policy=scripted(), **options):
    """A window of 100 tokens: one word of up to three letters a token, the system 10, no blocks."""
    options = dict(blocks={}, instructions="w " * 10, tokenize=lambda text: text.split()[1:]) | options
    return Agent(policy, options.pop("settings", AgentSettings(**SMALL)), **options)


def test_a_warning_comes_once_between_two_evictions_and_evictions_go_down_to_the_share():
    agent = small_agent()
    for _ in range(60):
        agent.user("w " * 9)  # 9 tokens, the reply 1
    trace = agent.trace
    # 19 + 10 k tokens: 79 is above 70, the warning makes it 92, and 102 is above 100. Without the six
    # oldest messages and five replies it is 43 <= 50; then the summary of 10 comes in.
    assert trace["warned"].tolist()[:8] == [False] * 6 + [True, False]
    assert trace["evicted"].tolist()[:8] == [0] * 7 + [11]
    assert trace["prompt"].tolist()[:8] == [19, 29, 39, 49, 59, 69, 92, 53]
    events = ["e" if evicted else "w" for warned, evicted in zip(trace.warned, trace.evicted) if warned or evicted]
    assert re.fullmatch("(we)+w?", "".join(events))


def test_no_summariser_can_empty_the_queue_or_swell_the_prompt():
    got = []

    def greedy(old, evicted, limit):
        got.append(evicted)
        return "long " * 1_000

    agent = small_agent(summarise=greedy)
    for _ in range(40):
        agent.user("w " * 9)
        assert agent.queue and len(agent.summary.split()) <= 10
    assert isinstance(got[0], tuple)
    agent = small_agent(summarise=lambda old, evicted, limit: "")
    for _ in range(40):
        agent.user("w " * 9)
    assert agent.queue and agent.summary == "" and agent.trace["prompt"].max() <= 100
    with pytest.raises(TypeError, match="summarise must return text"):
        agent = small_agent(summarise=lambda old, evicted, limit: None)
        for _ in range(40):
            agent.user("w " * 9)


def test_an_eviction_of_everything_keeps_the_newest_message():
    agent = small_agent(settings=AgentSettings(window=100, evict=1.0, summary=0, warn=1.0))
    for _ in range(20):
        agent.user("w " * 9)
    assert (agent.trace["prompt"] >= 19).all() and (agent.trace.query("evicted > 0")["prompt"] == 19).all()


@given(st.lists(st.integers(1, 40), max_size=40), st.floats(0, 1), st.floats(0, 1), st.integers(0, 20))
@settings(deadline=None)
def test_every_eviction_frees_tokens_and_every_prompt_fits(sizes, warn, evict, summary):
    lengths = []

    def measure(old, evicted, limit):
        lengths.append(agent._size())
        return " ".join(["[s]"] + ["w"] * 1_000)

    agent = small_agent(settings=AgentSettings(100, warn, evict, summary), summarise=measure)
    failed = False
    for size in sizes:
        try:
            agent.user("w " * size)
        except ValueError as error:  # so little was evicted that the summary does not fit
            failed = True
            assert "does not fit" in str(error)
            break
    trace = agent.trace
    lengths = lengths[:-1] if failed else lengths
    assert (trace["prompt"] <= 100).all()
    after = trace.loc[trace["evicted"] > 0, "prompt"].tolist()
    assert len(after) == len(lengths) and all(b < a for b, a in zip(after, lengths))


def test_a_window_smaller_than_one_message_is_an_error_and_no_loop():
    agent = small_agent()
    agent.user("w w w")
    with pytest.raises(ValueError, match=r"turn 1 .*does not fit.*holds 100 tokens"):
        agent.user("w " * 95)
    with pytest.raises(ValueError, match=r"turn 0 .*system 200"):
        small_agent(instructions="w " * 200).user("w")


def test_pressure_is_checked_after_a_large_search_result():
    texts = ["key " + "w " * 44, "key " + "w " * 10]

    def run(text):
        agent = small_agent(scripted(Call("archival_memory_search", query="key", request_heartbeat=True)))
        agent.memory.archival.insert(text)
        agent.user("w " * 30)
        return agent.trace

    assert run(texts[0])["event"].tolist()[1] == "heartbeat + memory pressure"
    assert run(texts[0])["warned"].tolist() == [False, True]
    assert run(texts[1])["warned"].tolist() == [False, False]
    evicting = run("key " + "w " * 60)  # from below 70 to above 100: no time to warn, but to evict
    assert evicting["evicted"].tolist() == [0, 2] and evicting["prompt"].max() <= 100


def test_an_eviction_frees_a_message_even_if_a_shorter_working_context_comes_in():
    forget = Call("core_memory_replace", label="human", old_content="w " * 40, new_content="", request_heartbeat=True)
    agent = small_agent(scripted(forget), blocks={"human": "w " * 40}, settings=AgentSettings(130, layout="append"))
    agent.user("w " * 9)
    for _ in range(8):
        agent.user("w " * 9)
        assert agent.trace["prompt"].max() <= 130
    assert agent.trace["evicted"].max() > 0
    assert next(s for s in agent.history[-1].segments if s.kind == "working").tokens < 10


def test_what_is_evicted_can_be_searched():
    agent = small_agent(settings=AgentSettings(window=140, summary=0))
    agent.user("zebra one")
    for _ in range(30):
        agent.user("w " * 9)
    assert not any("zebra" in message.text for message in agent.queue)
    agent.policy = scripted(Call("conversation_search", query="zebra", request_heartbeat=True))
    agent.user("w")
    assert agent.queue[-2].text == "1 of 1 results (page 0, last page 0)\nuser: zebra one"


# --- the price, the trace and the picture -------------------------------------------------------


@pytest.mark.parametrize("layout", AGENT_LAYOUTS)
@pytest.mark.parametrize("window, warn, evict", [(700, 0.7, 0.5), (900, 1.0, 0.1), (2_000, 0.3, 0.9), (1_000, 0.0, 1.0)])
def test_the_conversation_runs_at_any_setting_and_its_books_balance(layout, window, warn, evict):
    agent = conversation_demo(window, warn, evict, turns=40, layout=layout)
    trace = agent.trace
    assert (trace["prompt"] == trace["cached"] + trace["prefill"]).all()
    assert (trace["prefill"] == trace[["new", "edit", "evict", "moved"]].sum(axis=1)).all()
    assert agent.prefill == trace[["new", "edit", "evict", "moved"]].sum().to_dict()
    assert trace["prompt"].max() <= window
    assert [snapshot.tokens for snapshot in agent.history] == trace["prompt"].tolist()
    assert [snapshot.table["cached"].sum() for snapshot in agent.history] == trace["cached"].tolist()
    kinds = agent.history[-1].table["kind"].tolist()
    assert kinds[0] == "system" and kinds.index("working") == (len(kinds) - 1 if layout == "end" else 1)


def test_the_conversation_shows_every_mechanism():
    agent = conversation_demo()
    trace = agent.trace
    assert {"edit", "evict", "new"} <= set(trace["cause"])
    assert trace["warned"].any() and (trace["evicted"] > 0).any() and not trace["ok"].all()
    assert {"core_memory_append", "archival_memory_insert", "conversation_search"} <= set(trace["function"])
    assert "Lyon" in agent.memory.blocks["human"].value
    assert "I have a cat named Momo." in agent.memory.archival.texts  # the block was full


def test_in_layout_append_the_snapshot_waits_for_an_eviction():
    agent = conversation_demo(layout="append", turns=1)
    assert agent.memory.blocks["human"].value == TALK[0]
    working = next(s for s in agent.history[-1].segments if s.kind == "working")
    assert TALK[0] not in working.text
    assert [m.kind for m in agent.queue].count("note") == 1
    agent = conversation_demo(layout="append", turns=24)
    assert "Zurich" in next(s for s in agent.history[-1].segments if s.kind == "working").text


def test_the_prompt_can_be_read():
    agent = james_edit().agent
    assert "Boyfriend named James" in agent.history[0].render()
    assert EX in agent.render() and "[reply] I am sorry" in agent.render()


def test_tokens_are_counted_by_the_tokenizer_given():
    assert tokenize("Remember: 42!") == ["Reme", "mber", ":", "42", "!"]
    agent = Agent(scripted(), tokenize=list)  # a token a character
    agent.user("hello")
    assert agent.trace["prompt"][0] == sum(len(f"[{s.kind}] {s.text}") for s in agent.history[0].segments)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(window=0),
        dict(window=8e3),
        dict(window=True),
        dict(warn=1.1),
        dict(warn=float("nan")),
        dict(evict=-0.1),
        dict(summary=-1),
        dict(page_size=0),
        dict(max_calls=0),
        dict(layout="middle"),
        dict(credit_output=1),
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=f"AgentSettings.*{next(iter(wrong))}"):
        AgentSettings(**wrong)


@pytest.mark.parametrize("blocks", [[], "human", {5: "x"}, 5])
def test_blocks_are_labels_and_texts(blocks):
    with pytest.raises(ValueError, match="blocks must be a dict"):
        Agent(lambda view: None, blocks=blocks)


@pytest.mark.parametrize("wrong", [dict(value=3), dict(value="abc", limit=2), dict(limit=0), dict(read_only=None)])
def test_impossible_blocks_are_refused(wrong):
    with pytest.raises(ValueError, match="Block"):
        Block(**wrong)


# --- demonstrations -----------------------------------------------------------------------------


def test_the_docstring_example_runs():
    assert doctest.testmod(memgpt_agent).failed == 0
    assert doctest.testmod(memgpt_agent).attempted > 0


def test_a_policy_takes_less_than_ten_lines():
    assert len(inspect.getsource(james_policy).splitlines()) < 10


def test_james_becomes_an_ex():
    demo = james_edit()
    assert demo.after == demo.before.replace("Boyfriend", "Ex-boyfriend")
    assert demo.agent.trace["function"].tolist() == ["core_memory_replace", "send_message"]
    assert demo.agent.trace["cause"].tolist() == ["new", "edit"]


def test_nested_lookups_need_luck_in_one_call_and_none_with_heartbeats():
    for p in (0.0, 0.6, 0.9, 1.0):
        demo = nested_lookup(p, trials=4_000)
        table = demo.table
        assert table["lookups"].tolist() == [1, 2, 3, 4, 5]
        assert table["fixed_exact"].tolist() == pytest.approx([p**n for n in range(1, 6)])
        assert (abs(table["fixed"] - table["fixed_exact"]) < 0.03).all()
        assert (table["heartbeat"] == 1).all()
        assert table["heartbeat_calls"].tolist() == [3, 4, 5, 6, 7]
        assert all(len(agent.trace) == 1 for agent in demo.fixed.values())
    right = [demo.fixed[level].queue[-1].text == demo.heartbeat[level].queue[-1].text for level in range(5)]
    assert all(right)  # p = 1
    assert nested_lookup(0.7, seed=3).table.equals(nested_lookup(0.7, seed=3).table)


def test_more_luck_never_hurts():
    curves = [nested_lookup(p, trials=200).table["fixed"] for p in (0.3, 0.5, 0.7, 0.9)]
    assert all((high >= low).all() for low, high in zip(curves, curves[1:]))


def test_the_fixed_reader_of_one_trial_is_the_simulated_one():
    for seed in range(10):
        demo = nested_lookup(0.7, trials=1, seed=seed)
        for level, agent in demo.fixed.items():
            right = agent.queue[-1].text == demo.heartbeat[level].queue[-1].text
            assert right == demo.table["fixed"][level]


def test_stopping_early_on_paged_results_costs_answers():
    table = paged_search().table
    assert table["accuracy"].is_monotonic_increasing and table["accuracy"].iloc[-1] == 1
    assert (abs(table["accuracy"] - table["exact"]) <= 1 / 20).all()
    assert table["calls"].is_monotonic_increasing
    with pytest.raises(ValueError, match="patience"):
        paged_search(patience=(0,))
