"""Choosing: prices against the modules they come from, extreme workloads, poisoning replayed on a real playbook, forgetting asked for."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from labkit import ace, cartridges, choosing, forgetting, kv_cost, memory_systems, poisoning
from labkit.choosing import GUIDE, MEMORIES, Workload, choose, price
from labkit.choosing_memories import LENGTHS, STUDIED, in_conversation, paper_cartridge, study
from labkit.figures import choosing as figures
from labkit.forgetting import CARTRIDGE, FACTS, PLACES, Request, forget
from labkit.forgetting_agent import asked_agent
from labkit.poisoning import DEFENCES, INSTRUCTION, PoisonSettings, poison, replay

ROOFLINE = kv_cost.Roofline("Llama-3-8B", "H100 SXM")


def cheapest(**workload):
    table = price(Workload(**workload))
    return table.index[table["cheapest"]][0]


# ---- extreme workloads, each with its reason


def test_one_read_is_context_because_nothing_pays_for_writing():
    assert cheapest(reads=1) == "context"


def test_thousands_of_reads_of_a_stable_text_of_ones_own_is_a_cartridge_because_they_share_one_training():
    assert cheapest(reads=20_000, updates=0.02) == "cartridge"


def test_a_text_that_changes_faster_than_it_can_be_trained_is_no_cartridge():
    assert not price(Workload(reads=20_000, updates=1_000)).at["cartridge", "can"]


def test_a_shared_text_is_a_shared_prefix_because_one_copy_serves_all():
    for reads, users in ((2, 1_000), (100, 1_000), (100, 100)):
        assert cheapest(shared=True, reads=reads, users=users) == "shared prefix"


def test_facts_that_change_are_extracted_and_history_kept_because_old_values_are_asked_for():
    talk = dict(kind="conversation", tokens=100_000, reads=500)
    assert cheapest(**talk) == "mem0 graph"
    assert cheapest(**talk, history=False) == "mem0"  # only the present is asked for: DELETE costs nothing


def test_experience_is_a_playbook_because_lessons_are_shorter_than_records():
    assert cheapest(kind="experience", tokens=60_000) == "playbook"


def test_a_short_talk_that_must_be_read_well_stays_in_the_context():
    assert cheapest(kind="conversation", tokens=8_000, reads=5, accuracy=0.95) in ("context", "cached context")


def test_look_ups_are_retrieved_and_longer_than_the_window_is_no_context():
    assert cheapest(lookup=True).startswith("RAG")
    table = price(Workload(tokens=484_000, reads=20_000))
    assert not table.loc[["context", "cached context", "shared prefix"], "can"].any() and table.at["cartridge", "can"]


def test_the_guide_covers_its_cases():
    guide = choosing.guide()
    assert list(guide.index) == list(GUIDE) and (guide["times"] >= 1).all()
    assert {"shared prefix", "cartridge", "context", "mem0 graph", "playbook"} <= set(guide["memory"])


# ---- the reason in words is what really decided

EXTREMES = [dict(kind=kind, tokens=tokens, reads=reads, window=window, shared=shared, lookup=shared, history=reads > 1, accuracy=accuracy,
                 model=model, gpu="H100 SXM" if model == "Llama-3-8B" or reads == 1 else "B200")
            for kind, tokens, reads, window, shared, accuracy, model in product(
                choosing.KINDS, (1_000, 128_000, 1_000_000), (1, 200, 1_000_000), (8_000, 1_000_000), (False, True), (0.0, 0.6, 0.9),
                ("Llama-3-8B", "Llama-3-70B"))]
SAID = re.compile(r"cheapest: (?P<nature>.+?); (?:next: (?P<next>.+?), (?P<dearer>(?:just as dear)|(?:[\d,.e-]+ (?:% dearer|times as dear), "
                  r"by (?P<by>reading|writing)))(?:; cheaper, but cannot answer: (?P<out>.+))?|nothing else can answer: (?P<all>.+))")


@pytest.mark.parametrize("extreme", EXTREMES[::11], ids=lambda e: "-".join(map(str, e.values())))
def test_the_winners_reason_follows_from_the_prices(extreme):
    """Who is next and by how much, and who costs less but cannot answer and why: read from the words, computed again from the prices."""
    table = choose(**extreme).table
    out, able = table[~table["can"]], table.loc[table["can"], "query"].sort_values()
    assert (out["reason"] != "").all() and np.isfinite(able).all()
    assert (table.loc[table["can"], "prompt"] + 270 <= extreme["window"]).all()  # the question's 70 tokens, and the answer's 200
    if not len(able):
        assert not table["cheapest"].any()
        return
    best = table.index[table["cheapest"]][0]
    assert table.at[best, "query"] == able.iloc[0]
    said = SAID.fullmatch(table.at[best, "reason"])
    if len(able) == 1:
        named, decided = said["all"], out
    else:
        second, cost = table.loc[said["next"]], table.loc[best]
        assert second["can"] and second["query"] == able.iloc[1] and table.at[said["next"], "reason"] == said["dearer"]
        if not said["by"]:
            assert second["query"] == pytest.approx(cost["query"], rel=1e-4)
        else:  # take the winner's part for the other one: what is left of the difference?
            more = {"reading": second["read"] - cost["read"],
                    "writing": (second["query"] - second["read"]) - (cost["query"] - cost["read"])}
            assert more[said["by"]] == max(more.values())
            number = float(re.match(r"[\d,.e-]+", said["dearer"])[0].replace(",", ""))
            times = number if "times" in said["dearer"] else 1 + number / 100
            assert times == pytest.approx(second["query"] / cost["query"], abs=0.051)
        named, decided = said["out"] or "", out[out["query"] < cost["query"]]
    for name in MEMORIES:
        assert bool(re.search(rf"(^|; | / ){re.escape(name)}( / | \()", named)) == (name in decided.index)
    assert all(f"({why})" in named for why in decided["reason"])


def test_reasons_of_a_text_longer_than_the_window_name_the_window():
    reason = price(Workload(tokens=1_000_000)).at["cartridge", "reason"]
    assert "nothing else can answer: context / cached context (prompt and answer: 1,000,270 tokens, the window has 128,270)" in reason
    assert "seldom" not in reason and "200 reads" in reason


def test_every_prompt_must_fit_the_window():
    for kind, memory in (("documents", "cartridge"), ("experience", "playbook")):
        narrow, wide = (price(Workload(kind, tokens=1_000_000, window=window)).loc[memory] for window in (8_000, 1_000_000))
        assert not narrow["can"] and "the window has 8,000" in narrow["reason"] and wide["can"]


def test_where_the_weights_do_not_fit_nothing_is_chosen():
    for kind in choosing.KINDS:
        result = choose(kind=kind, model="Llama-3-70B")
        assert result.best is None and "weights" in " ".join(result.table["reason"])


def test_the_guide_of_a_case_with_one_answer_or_none():
    guide = choosing.guide({"one": Workload(tokens=1_000_000), "none": Workload(tokens=1_000_000, window=1_000)})
    assert (guide.at["one", "memory"], guide.at["one", "next"]) == ("cartridge", "none")
    assert guide.at["none", "memory"] == "none" and guide.at["none", "reason"] == "nothing can answer"


# ---- prices are those of the other modules


def test_contexts_cost_what_kv_cost_says():
    table = price(Workload(tokens=64_000))
    assert table.at["context", "read"] == ROOFLINE.gpu_seconds_per_query(64_000, cached=False)
    assert table.at["cached context", "read"] == ROOFLINE.gpu_seconds_per_query(64_000)
    assert table.at["cached context", "write"] == pytest.approx(ROOFLINE.prefill_seconds(64_000))
    shared = price(Workload(tokens=64_000, shared=True, users=300)).loc["shared prefix"]
    by_hand = 200 / ROOFLINE.throughput(64_000, 64_000, users=300) + ROOFLINE.prefill_seconds(70, 64_000)
    assert shared["read"] == pytest.approx(by_hand)
    assert shared["query"] == pytest.approx(by_hand + ROOFLINE.prefill_seconds(64_000) / (200 * 300))


def test_the_cartridges_break_even_is_that_of_kv_cost_and_of_its_own_module():
    compression, training, _ = paper_cartridge()
    assert (compression, training) == (38.6, 14_400)
    result = choose()
    before, after = result.table.loc[["cached context", "cartridge"], "read"]
    assert cartridges.break_even().accounts["queries"].iloc[0] == pytest.approx(kv_cost.break_even_queries(training, before, after))
    written = training - result.table.at["cached context", "write"]  # here the cached context pays its prefill too
    assert result.cheaper_from("cartridge", "cached context") == pytest.approx(kv_cost.break_even_queries(written, before, after))
    crossing = result.curves["cartridge"] < result.curves["cached context"]
    assert crossing.idxmax() >= result.cheaper_from("cartridge", "cached context") > crossing.index[crossing.argmax() - 1]


@pytest.mark.parametrize("name", list(STUDIED))
def test_conversations_cost_what_memory_systems_says_at_a_length_that_was_simulated(name):
    rows = study().loc[(name, "all")]
    tokens = 43 * 1_200
    row = in_conversation(name, "all", tokens)
    for column in ("accuracy", "write_calls", "write_prefill", "tokens"):
        assert row[column] == pytest.approx(rows.at[1_200, column])
    again = memory_systems.length_study((1_200,), 10, 0, {name: STUDIED[name]})
    seconds = memory_systems.gpu_seconds(again.drop(columns="turns"), ROOFLINE).iloc[0]
    cost = price(Workload("conversation", tokens=tokens)).loc[name]
    assert (cost["read"], cost["write"]) == pytest.approx((seconds.a_question, seconds.once), rel=1e-6)
    assert in_conversation(name, "all", 10 * 43 * LENGTHS[-1])["write_calls"] == pytest.approx(10 * rows["write_calls"].iloc[-1])


def test_a_playbook_costs_what_ace_serving_says():
    table, size = price(Workload("experience", tokens=60_000)), 200 * 0.6 * 40
    batch = ROOFLINE.max_users(500 + size)
    s = ace.PlaybookSettings(task=70, output=200, batch=batch)
    assert table.at["playbook", "prompt"] == size
    assert table.at["playbook", "read"] == pytest.approx(float(ace.step_seconds(570 + size, 500 + size, 0, s)))


@pytest.mark.parametrize("workload", [Workload(), Workload("conversation", tokens=30_000), Workload("experience", tokens=9_000),
                                      Workload(shared=True, users=7)], ids=["own", "talk", "experience", "shared"])
def test_prices_hold_together(workload):
    table = price(workload)
    assert list(table.index) == list(MEMORIES) and table["cheapest"].sum() == 1 and (table["reason"] != "").all()
    sharers = workload.reads * (workload.users if workload.shared else 1)
    np.testing.assert_allclose(table["query"], table["read"] + table["write"] / sharers)
    assert table.loc[table["can"], "query"].min() == table.loc[table["cheapest"], "query"].iloc[0]
    more = price(replace(workload, reads=10 * workload.reads))
    assert (more["query"] <= table["query"] * (1 + 1e-12)).all()
    np.testing.assert_allclose(choose(**vars(workload)).curves.loc[1], table["read"] + table["write"] / (sharers / workload.reads))


@pytest.mark.parametrize("extreme", EXTREMES[::17], ids=lambda e: "-".join(map(str, e.values())))
def test_each_memory_is_the_cheapest_between_the_reads_that_are_told(extreme):
    """At every number of reads drawn, and on both sides of each end told: who is cheapest by its price?"""
    result = choose(**extreme)
    told, able = result.cheapest_between(), result.table[result.table["can"]]
    ends = told.to_numpy()[np.isfinite(told.to_numpy())]
    sharing = result.workload.users if result.workload.shared else 1
    for reads in {*choosing.READS[::4], *ends, *(ends + 1), *(ends[ends > 1] - 1)}:
        price_there = able["read"] + able["write"] / (reads * sharing)
        best = price_there.index[np.isclose(price_there, price_there.min(), rtol=1e-12, atol=0)]
        assert set(best) >= set(told.index[(told["least"] <= reads) & (reads <= told["most"])])
        assert not len(able) or told.eval("least <= @reads <= most").any()


def test_the_reads_at_which_a_memory_is_the_cheapest_of_three_lines():
    result = choose()
    told = result.cheapest_between()
    assert [figures.span(*ends) for ends in told.to_numpy()] == ["1", "2 to 8,873", "from 8,874"]
    assert list(told.index) == ["context", "cached context", "cartridge"]
    assert told.at["cartridge", "least"] == np.ceil(result.cheaper_from("cartridge", "cached context"))


def test_a_small_change_is_cheap_to_append_and_dear_to_retrain():
    whole, part = (price(Workload("conversation", tokens=60_000, new=new)) for new in (1.0, 0.1))
    assert part.at["mem0 graph", "write"] == pytest.approx(0.1 * whole.at["mem0 graph", "write"])
    assert part.at["cached context", "write"] < 0.2 * whole.at["cached context", "write"]
    assert part.at["cartridge", "write"] == whole.at["cartridge", "write"]


def test_what_stays_cached_is_what_the_studies_say():
    share = choosing.what_stays_cached()
    assert share["playbook: append"] == ace.serve_playbook(ace.even_trace()).reuse
    assert share["playbook: append"] > 0.9 > share["playbook: counters"] > share["playbook: rewrite"]
    assert share["MemGPT, working context: append"] > share["MemGPT, working context: front"] > share["MemGPT, working context: end"]


@pytest.mark.parametrize("field, value", [("kind", "novel"), ("tokens", 0), ("tokens", float("nan")), ("reads", -1), ("users", 0), ("users", 2.5),
                                          ("users", True), ("new", 1.1), ("window", "8k"), ("shared", 1), ("accuracy", 2), ("reads", [1, 2])])
def test_impossible_workloads_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        Workload(**{field: value})
    with pytest.raises(ValueError, match="workload"):
        price("much")


# ---- poisoning


@pytest.mark.parametrize("defences", [some for n in product((0, 1), repeat=4) for some in [tuple(d for d, on in zip(DEFENCES, n) if on)]],
                         ids="+".join)
def test_the_simulated_entries_are_those_of_a_real_playbook(defences):
    result = poison(defences)
    for seed in (0, 3):
        book = replay(result, seed)
        alive = (result.birth[seed] < result.settings.tasks) & (result.death[seed] == result.settings.tasks)
        assert len(book) == alive.sum()
        assert sum(INSTRUCTION in bullet.text for bullet in book.bullets) == alive[:, 2].sum()
        assert all(bullet.text.startswith("[") == ("labels" in defences) for bullet in book.bullets)


def test_poison_agrees_with_a_plain_loop():
    """One seed, task by task, with lists; user and expiry on."""
    s, defences = PoisonSettings(life=12, look=10, spot=0.6), ("expiry", "user")
    result, world = poison(defences, s), poisoning.draw_world(poisoning.SEEDS, s.tasks, s.first, (s.own, s.web, s.planted), s.concerned)
    harms = []
    for seed in range(poisoning.SEEDS):
        entries, harm = {}, 0
        for task in range(s.tasks):
            poisoned = any(kind == 2 for _, kind in entries)
            harm += poisoned and world.concerned[seed, task] and world.follow[seed, task] < s.follow
            entries |= {(task, kind): task for kind in range(3) if world.met[seed, task, kind]}
            for born, kind in entries:
                if world.confirm[task, seed, born, kind] < (s.confirm, s.confirm, s.confirm_planted)[kind]:
                    entries[born, kind] = task
            entries = {e: last for e, last in entries.items() if task - last < s.life}
            if (task + 1) % s.look == 0:
                entries = {e: last for e, last in entries.items() if world.look[task, seed, *e] >= (s.slip, s.slip, s.spot)[e[1]]}
        harms.append(harm)
    assert result.total["harm"] == pytest.approx(np.mean(harms))


def test_each_defence_stops_some_and_costs_something():
    alone = poisoning.defend().alone
    for name in DEFENCES:
        row, none = alone.loc[f"{name} alone"], alone.loc["no defence"]
        assert row["harm"] < none["harm"]
        assert row["in_use"] < none["in_use"] and row[["calls", "tokens", "shown"]].sum() >= 0
    assert alone.loc["all four", "harm"] <= alone["harm"].min()
    assert none["harm"] > 3 * none["once"]  # written down it does more than in the prompts it came in


def test_planted_sentence_comes_back_everywhere_but_from_one_prompt():
    table = poisoning.exposure()
    assert table.at["context: one prompt", "on_topic"] == 0 and (table["on_topic"].iloc[1:] > 0.9).all()
    assert (table.loc[["playbook", "MemGPT: working context"], "others"] == 1).all() and table.at["cartridge", "others"] < 0.05
    assert not table.at["cartridge", "readable"]


@pytest.mark.parametrize("bad", [dict(tasks=0), dict(own=1.5), dict(first=100), dict(life=0), dict(catch=float("nan")), dict(look=True)])
def test_impossible_poison_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        PoisonSettings(**bad)
    with pytest.raises(ValueError, match="magic"):
        poison(("magic",))


# ---- forgetting


@pytest.mark.parametrize("fact", list(FACTS))
def test_one_click_leaves_no_trace_anywhere(fact):
    everything = forget(fact, True, True, True, True, "train again without it")
    assert everything.left == 0 and everything.bill["cartridge"] == kv_cost.L11_RULES.training_gpu_seconds
    assert everything.others.loc["all", "after"] > 0.9  # the others are still known
    assert forget(fact, entries=False).traces.eval("before == after").all()


@pytest.mark.parametrize("missing", ["old_versions", "raw", "rebuilt", "cartridge"])
def test_each_step_left_out_leaves_a_trace(missing):
    steps = dict(entries=True, old_versions=True, raw=True, rebuilt=True, cartridge="train again without it")
    result = forget(**steps | {missing: "leave it" if missing == "cartridge" else False})
    left = result.traces[result.traces[["after", "later"]].max(axis=1) > 0]
    assert result.left == len(left) > 0
    assert missing in set(left["removed_by"])


def test_own_deletes_leave_what_they_superseded_and_quote_what_they_delete():
    traces = forget().traces
    assert traces.at["mem0 graph: valid edges", "after"] == 0
    assert (traces.at["mem0 graph: invalid edges", "after"], traces.at["mem0 graph: invalid edges", "later"]) == (0, 1)
    assert (traces.at["MemGPT: queue of messages", "before"], traces.at["MemGPT: queue of messages", "after"]) == (0, 1)
    assert traces.at["mem0: log of operations", "later"] == 1


def test_a_summary_written_anew_from_messages_that_were_kept_brings_the_fact_back():
    assert forget(raw=False, rebuilt=True).traces.at["MemGPT: recursive summary", "after"] == 1


def test_cutting_out_a_slot_also_forgets_others_of_the_slot():
    result = forget(cartridge="cut out the slot")
    assert result.traces.at["cartridge", "after"] == 0
    assert result.others.at["same slot", "after"] < result.others.at["same slot", "before"] - 0.2


def test_asking_does_not_change_the_agent():
    request = Request()
    first = forget().traces
    texts = list(asked_agent(request)[0][149].memory.recall.texts)
    forget()
    assert asked_agent(request)[0][149].memory.recall.texts == texts and forget().traces.equals(first)


@pytest.mark.parametrize("bad", [dict(fact="age"), dict(cartridge="burn it"), dict(raw=1)])
def test_impossible_requests_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        forget(**bad)


def test_what_removes_a_place_is_a_step_of_the_request():
    assert {step for _, step in PLACES.values()} <= set(vars(Request())) and "leave it" in CARTRIDGE


# ---- figures


def test_tables_and_descriptions_speak_of_the_result():
    choice, defended, forgotten = choose(), poisoning.defend(labels=True), forget()
    assert list(figures.table_choice(choice).index) == list(MEMORIES) and "cached context" in figures.alt_choice(choice)
    assert figures.table_defended(defended).loc["as chosen", "tasks harmed"] == defended.chosen.total["harm"]
    assert figures.table_forgetting(forgotten).loc["places with a trace", "right after"] == str((forgotten.traces["after"] > 0).sum())
    assert figures.table_forgetting(forgotten).loc["places, right after or later", "50 messages later"] == str(forgotten.left) == "12"
    assert "12 of 15" in figures.alt_forgetting(forgotten)
    assert figures.table_choice(choice).loc["cached context", "cheapest at (reads)"] == "2 to 8,873"
    nothing = choose(tokens=1_000_000, model="Llama-3-70B")
    assert nothing.best is None and "Nothing" in figures.verdict(nothing) and "weights do not fit" in figures.alt_choice(nothing)


@pytest.mark.parametrize("extreme, said", [
    (dict(), "cached context: 1.72 GPU s per query; next: context, 6.1 times as dear, by reading."),
    (dict(tokens=1_000_000), "Nothing else can answer."), (dict(lookup=True), "Nothing costs less."),
    (dict(reads=1), "3 would cost less, but cannot answer"), (dict(model="Llama-3-70B"), "Nothing here can answer"),
    (dict(lookup=True, reads=1_000), "The passages' KV is kept"),
])
def test_the_verdict_has_three_lines(extreme, said):
    verdict = figures.verdict(choose(**extreme))
    assert said in verdict and verdict.count("\n") == 2


@pytest.mark.parametrize("study, arguments", [(choose, {}), (choose, {"model": "Llama-3-70B"}), (poisoning.defend, {"labels": True}),
                                              (forget, {})])
def test_a_result_that_is_pasted_into_a_cell_is_one_line(study, arguments):
    result = study(**arguments)
    assert repr(result).startswith(type(result).__name__) and "\n" not in repr(result) and len(repr(result)) < 200


@pytest.mark.parametrize("call, says", [
    (lambda: price(roofline="H100 SXM"), "roofline must be a Roofline"), (lambda: choosing.guide([]), "cases must be a dict"),
    (lambda: poisoning.defend(labels="no"), "'labels?' must be True or False"), (lambda: poison(None), "defences must be a list"),
    (lambda: poison("labels"), "defences must be a list"), (lambda: poison((), None), "settings must be PoisonSettings"),
    (lambda: forgetting.bill(None), "request must be Request"), (lambda: forgetting.bill(Request(), "H100"), "roofline must be a Roofline"),
])
def test_impossible_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
