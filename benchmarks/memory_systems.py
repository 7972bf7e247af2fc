"""CPU of one slider move over the memory systems, and of the length study.

Run ``OMP_NUM_THREADS=1 python benchmarks/memory_systems.py``. The conversations are made once and kept; a move changes a
setting of every system and asks all questions again. Aims: 3 conversations under 25 ms, 10 under 100 ms. The length study
runs once and is kept too.
"""

import statistics
import time

from labkit import memory_systems as ms
from labkit.conversation import Conversation, conversations

AIMS = {3: 25, 10: 100}  # conversations: ms


def milliseconds(function, *arguments):
    """CPU time of one call."""
    begin = time.process_time()
    function(*arguments)
    return (time.process_time() - begin) * 1e3


def moved(step):
    """All systems, each with a slider moved."""
    errors = {"recall": 0.7 + 0.02 * step, "known_mistake": 0.05 * step, "s": 5 + step, "k": 5 + step}
    return {"full context": ms.FullContext(alpha=0.1 * step), "RAG": ms.Rag(chunk=128 + 64 * step, k=4 + step),
            "MemGPT style": ms.MemGptStyle(queue=3_000 + 500 * step, capacity=10 + 4 * step), "mem0": ms.Mem0(**errors),
            "mem0 graph": ms.Mem0Graph(**errors), "add-only": ms.AddOnly(recall=errors["recall"], k=errors["k"])}


def step_through(conversation, turn):
    """Panel 1: the dialogue, the log, the store and the graph at a turn."""
    memory = ms.Mem0Graph().build(conversation)
    return conversation.messages.head(turn), memory.log, memory.store(turn), memory.graph(turn), memory.reading(0)


def main():
    for count, aim in AIMS.items():
        first = milliseconds(conversations, count)
        cold = milliseconds(ms.evaluate, moved(0), conversations(count))
        moves = [milliseconds(ms.evaluate, moved(step), conversations(count)) for step in range(1, 13)]
        verdict = "meets" if max(moves) < aim else "misses"
        print(f"{count:3} conversations: making them {first:6.1f} ms, first evaluation {cold:5.1f}, a move {statistics.median(moves):5.1f} "
              f"(worst {max(moves):5.1f}); {verdict} the aim of {aim} ms")
    conversation = Conversation.generate(0)
    milliseconds(step_through, conversation, 0)
    steps = [milliseconds(step_through, conversation, turn) for turn in range(0, 600, 50)]
    print(f"    store, step by step: {statistics.median(steps):5.1f} ms a turn")
    print(f"    length study, 90 conversations a length: {milliseconds(ms.length_study) / 1e3:5.1f} s once, then {milliseconds(ms.length_study):.1f} ms")


if __name__ == "__main__":
    main()
