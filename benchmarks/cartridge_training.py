"""How fast a cartridge trains: against this machine's matrix products, PyTorch, a textbook version, and the clock.

    python benchmarks/cartridge_training.py           # with torch installed, PyTorch is compared too
    python benchmarks/cartridge_training.py --short   # without the demonstrations

All times are CPU seconds of one thread; the ratios of a line come from turns taken in the same run.
"""

import sys
import time
from dataclasses import replace

import numpy as np

from labkit import cartridges as lab
from labkit.cartridge_gradient import BETA1, EPSILON, Adam, Student
from labkit.cartridge_training import _Training, lessons
from labkit.cartridge_world import BETA, READOUT, one_thread

try:
    import torch
except ImportError:
    torch = None

STEPS = 96  # in one turn: whole blocks of questions at either batch
REASONS = {"live": "goal 4: questions reused, so the teacher is asked once for each",
           "lecture": "no goal: every question is new, and so is the teacher's work on it"}


def seconds_a_step(*advances, turns=9):
    """Least CPU seconds a step of each, over turns that they take one after the other."""
    least = [np.inf] * len(advances)
    for _ in range(turns):
        for number, advance in enumerate(advances):
            started = time.process_time()
            advance()
            least[number] = min(least[number], (time.process_time() - started) / STEPS)
    return least


def ours(facts, settings, batches):
    """A turn of gradient and Adam."""
    cartridge = np.stack([facts.keys[:settings.size], facts.values[:settings.size]]).astype(np.float32)
    student = Student(settings.batch, settings.size, facts.values.astype(np.float32))
    adam = Adam(cartridge, settings.lr_keys, settings.lr_values, settings.beta2)

    def advance():
        for batch in batches:
            adam.update(student.gradient(cartridge, *batch)[1])
    return advance


def training(facts, settings):
    """A turn of a whole training, from the first question to the last step; only the final test is left out."""
    def advance():
        _Training(facts, settings, 0, lessons(facts, settings)).advance(settings.steps)
    return advance


def matrix_products(facts, settings):
    """A turn of the step's seven matrix products alone."""
    def floats(*shape):
        return np.ones(shape, np.float32)
    batch, size, vocabulary = settings.batch, settings.size, len(facts)
    questions, keys, embeddings = floats(batch, lab.DIM), floats(size, lab.DIM), facts.values.astype(np.float32)
    weights, logits, out, gradient = floats(batch, size), floats(batch, vocabulary), floats(batch, lab.DIM), floats(size, lab.DIM)
    filled, logits_in = floats(batch, size), floats(batch, vocabulary)

    def advance():
        for _ in range(STEPS):
            np.matmul(questions, keys.T, out=weights)
            np.matmul(filled, keys, out=out)
            np.matmul(questions, embeddings.T, out=logits)
            np.matmul(logits_in, embeddings, out=out)
            np.matmul(filled.T, questions, out=gradient)
            np.matmul(questions, keys.T, out=weights)
            np.matmul(filled.T, questions, out=gradient)
    return advance


def pytorch(facts, settings, batches):
    """A turn of the same work in PyTorch eager: the same precomputed targets, autograd, torch.optim.Adam."""
    torch.set_num_threads(1)
    embeddings = torch.tensor(facts.values, dtype=torch.float32)
    keys = torch.nn.Parameter(torch.tensor(facts.keys[:settings.size], dtype=torch.float32))
    values = torch.nn.Parameter(embeddings[:settings.size].clone())
    adam = torch.optim.Adam([{"params": [keys], "lr": settings.lr_keys}, {"params": [values], "lr": settings.lr_values}],
                            betas=(BETA1, settings.beta2), eps=EPSILON)
    tensors = [(torch.from_numpy(np.ascontiguousarray(questions)), torch.from_numpy(np.ascontiguousarray(targets)))
               for questions, targets, _ in batches]

    def advance():
        for questions, targets in tensors:
            out = torch.softmax(BETA * questions @ keys.T, dim=1) @ values
            log_total = torch.logsumexp(READOUT * out @ embeddings.T, dim=1)
            loss = (log_total - READOUT * (out * targets).sum(dim=1)).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return advance


def textbook(facts, settings):
    """A turn as a textbook writes it: float64, new arrays everywhere, the teacher's whole distribution at every step."""
    rng = np.random.default_rng(0)
    parameters = [facts.keys[:settings.size].copy(), facts.values[:settings.size].copy()]
    means, squares = [np.zeros_like(x) for x in parameters], [np.zeros_like(x) for x in parameters]
    count = 0

    def softmax(scores):
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def advance():
        nonlocal count
        for _ in range(settings.steps):
            asked = rng.integers(len(facts), size=settings.batch)
            questions = facts.reword(asked, rng)
            teacher = softmax(READOUT * (softmax(BETA * questions @ facts.keys.T) @ facts.values) @ facts.values.T)
            keys, values = parameters
            attention = softmax(BETA * questions @ keys.T)
            student = softmax(READOUT * (attention @ values) @ facts.values.T)
            np.sum(teacher * (np.log(teacher) - np.log(student)))
            slope = READOUT * (student - teacher) @ facts.values / settings.batch
            by_attention = slope @ values.T
            by_scores = attention * (by_attention - (by_attention * attention).sum(axis=1, keepdims=True))
            count += 1
            for number, gradient in enumerate((BETA * by_scores.T @ questions, attention.T @ slope)):
                means[number] = BETA1 * means[number] + (1 - BETA1) * gradient
                squares[number] = settings.beta2 * squares[number] + (1 - settings.beta2) * gradient**2
                mean, square = means[number] / (1 - BETA1**count), squares[number] / (1 - settings.beta2**count)
                rate = (settings.lr_keys, settings.lr_values)[number]
                parameters[number] = parameters[number] - rate * mean / (np.sqrt(square) + EPSILON)
    return advance


@one_thread
def steps():
    facts = lab.Facts.random()
    for size, batch in ((64, 128), (64, 256), (256, 128)):
        settings = replace(lab.LECTURE, size=size, batch=batch)
        source = lessons(facts, settings)
        batches = [next(source) for _ in range(STEPS)]
        compared = [ours(facts, settings, batches), matrix_products(facts, settings)]
        compared += [pytorch(facts, settings, batches)] if torch else []
        own, products, *other = seconds_a_step(*compared)
        flops = settings.flops(len(facts))
        print(f"step, p {size}, batch {batch}: {1000 * own:.3f} ms, {flops / own / 1e9:.0f} GFLOP/s; matrix products alone "
              f"{flops / products / 1e9:.0f} GFLOP/s, share {products / own:.2f} (goal 0.5)"
              + (f"; PyTorch {torch.__version__} eager {1000 * other[0]:.3f} ms, ratio {other[0] / own:.2f} (goal 1.5)"
                 if torch else "; PyTorch not installed"))
    for settings in (replace(lab.LECTURE, steps=STEPS), lab.LIVE):
        own, plain = (STEPS / settings.steps * least for least in seconds_a_step(
            training(facts, settings), textbook(facts, settings), turns=5))
        print(f"step with questions and teacher, {settings.preset} preset, p {settings.size}, {settings.steps} steps: {1000 * own:.3f} ms; "
              f"textbook float64 {1000 * plain:.3f} ms, ratio {plain / own:.2f}; {REASONS[settings.preset]}")


def timed(label, goal, work):
    started = time.process_time()
    result = work()
    print(f"{label}: {time.process_time() - started:.2f} s CPU (goal {goal})", flush=True)
    return result


def whole_trainings(short):
    facts = lab.Facts.random()
    for _ in range(3):
        result = timed("live cartridge, p 64", "0.5", lambda: lab.fit(facts, lab.LIVE))
    print(f"  accuracy on reworded questions {result.accuracy:.3f}")
    timed("live cartridge, p 64, with the panel's reports", "0.5", lambda: list(lab.train_live()))
    timed("live frontier, p 8..256, self-study and memorise", "5", lab.frontier)
    if short:
        return
    for settings, goal in ((lab.LIVE, 15), (lab.LECTURE, 50)):
        timed(f"the four demonstrations, {settings.preset} preset", goal,
              lambda settings=settings: [timed(f"  {name}", "-", lambda study=study: study(settings)) for name, study in lab.DEMOS.items()])


if __name__ == "__main__":
    steps()
    whole_trainings("--short" in sys.argv)
