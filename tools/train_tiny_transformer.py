"""Train the small transformer of labkit/tiny_transformer.py; write its weights, or compare trials and write the log.

    python tools/train_tiny_transformer.py             # the shipped weights: data/tiny_transformer.npz
    python tools/train_tiny_transformer.py --trials    # all of TRIALS: data/tiny_transformer_log.csv as well

Needs PyTorch, which nothing else here does: pip install torch. One thread.

    loss = cross-entropy of the answers + weight x cross-entropy of the references

The auxiliary loss makes the first layer's output of each fact name, through the model's own head, the subject of the
fact that points to it ("none" where there is none): resolve the reference while reading.

It is needed. Without it (two seeds, in the log) the model answers two hops by following the chain from the question,
one fact a layer: 1.00 in full, and as much from documents that never read each other, so there is nothing to repair;
and three hops, which two layers cannot follow that way, stay at 0.09. With it all three are at 1.00 after 1,400 steps,
about a minute, and full reuse answers 0.02 of two hops.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F

from labkit.tiny_task import FACT, MOST_CHAINS, MOST_FACTS, NONE, QUESTION, START, SYMBOLS, draw, sample
from labkit.tiny_transformer import TinyTransformer

DATA = Path(__file__).resolve().parents[1] / "data"
HIDDEN, HEADS, HEAD_DIM, MLP, SYMBOL_DIM, LAYERS, KINDS = 96, 3, 32, 192, 48, 2, 5


@dataclass(frozen=True)
class Training:
    """One trial. Batch, peak learning rate and warm-up are common values for a model of this size."""

    seed: int = 0
    auxiliary: float = 1.0          # weight of the auxiliary loss; 0 leaves it out
    steps: int = 2_000
    batch: int = 48                 # sequences
    learning_rate: float = 3e-3     # peak
    warm_up: int = 100              # steps of linear rise, then a cosine down to 0
    log_every: int = 200

    def longest(self, step):
        """Facts a document at most: short documents teach the look-up soon, 14 to 21 are the aim."""
        return min(MOST_FACTS, 4 + step // 100)


TRIALS = [Training(seed=0), Training(seed=1), Training(seed=0, auxiliary=0.0), Training(seed=1, auxiliary=0.0)]


class Transformer(nn.Module):
    """The same pass as labkit.tiny_transformer, all tokens in one sequence and a mask for the questions."""

    def __init__(self):
        super().__init__()
        shapes = {"embedding": (SYMBOLS, SYMBOL_DIM), "kinds": (KINDS, HIDDEN), "head": (HIDDEN, SYMBOL_DIM), "norm": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"{layer}.{name}": (HIDDEN, HIDDEN) for name in ("query", "key", "value", "output")}
            shapes |= {f"{layer}.{name}": (HIDDEN,) for name in ("norm", "mlp_norm")}
            shapes |= {f"{layer}.up": (HIDDEN, MLP), f"{layer}.down": (MLP, HIDDEN)}
        self.w = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(start(name, shape)) for name, shape in shapes.items()})
        self.names = list(shapes)

    def forward(self, batch):
        """Logits of the answers (n, Q, 128) and of the references (n, T, 129)."""
        w = self.w
        table = torch.cat([w["embedding"], torch.zeros(1, SYMBOL_DIM)])
        tokens = torch.from_numpy(batch.tokens)
        questions = torch.from_numpy(batch.questions)
        n, length, asked = *tokens.shape[:2], questions.shape[1]
        pairs = torch.cat([tokens, torch.stack([questions, torch.full_like(questions, NONE)], -1)], 1)
        kinds = torch.cat([torch.where(tokens[..., 0] == NONE, START, FACT),
                           (QUESTION + torch.from_numpy(batch.hops)).expand(n, asked)], 1)
        h = table[pairs].flatten(2) + w["kinds"][kinds]
        positions = torch.arange(length + asked).clamp(max=length)
        mask = torch.zeros(length + asked, length + asked, dtype=torch.bool)
        mask[:length, :length] = torch.ones(length, length).tril().bool()
        mask[length:, :length] = True
        mask |= torch.eye(length + asked, dtype=torch.bool)
        for layer in range(LAYERS):
            x = norm(h, w[f"{layer}_norm"])
            q, k, v = (split(x @ w[f"{layer}_{name}"]) for name in ("query", "key", "value"))
            read = F.scaled_dot_product_attention(rotate(q, positions), rotate(k, positions), v, attn_mask=mask)
            h = h + read.transpose(1, 2).flatten(2) @ w[f"{layer}_output"]
            h = h + F.silu(norm(h, w[f"{layer}_mlp_norm"]) @ w[f"{layer}_up"]) @ w[f"{layer}_down"]
            if layer == 0:
                references = norm(h[:, :length], w["norm"]) @ w["head"] @ table.T
        return norm(h[:, length:], w["norm"]) @ w["head"] @ w["embedding"].T, references

    def numpy(self, dtype=np.float16):
        """The weights that the numpy model reads, in the precision they are stored with."""
        return {name: self.w[name.replace(".", "_")].detach().numpy().astype(dtype) for name in self.names}


def start(name, shape):
    """First values: gains 1, symbols of about unit length, matrices normal with variance 1 / inputs."""
    if len(shape) == 1:
        return torch.ones(shape)
    scale = {"embedding": SYMBOL_DIM, "kinds": HIDDEN}.get(name, shape[0])
    return torch.randn(shape) / scale ** 0.5


def norm(x, gain):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain


def split(x):
    return x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)


def rotate(x, positions, base=10_000.0):
    half = HEAD_DIM // 2
    angle = positions[:, None] * base ** (-torch.arange(half) / half)
    turn = torch.polar(torch.ones_like(angle), angle)
    turned = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat([turned.real, turned.imag], -1)


def train(training):
    """Returns (weights, rows of the log)."""
    torch.manual_seed(training.seed)
    rng = np.random.default_rng(training.seed)
    model = Transformer()
    optimiser = torch.optim.AdamW(model.parameters(), lr=training.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step, training))
    rows, started = [], time.process_time()
    for step in range(1, training.steps + 1):
        facts = int(rng.integers(2, training.longest(step) + 1))      # long ones from the start: no two hops in 2,000 steps
        chains = int(rng.integers(1, min(MOST_CHAINS, facts // 2) + 1))     # the share varies, so that it can be a slider
        batch = draw(training.batch, rng, chains, facts)
        logits, references = model(batch)
        loss = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(batch.answers).flatten())
        auxiliary = F.cross_entropy(references.flatten(0, 1), torch.from_numpy(batch.refers_to).flatten())
        optimiser.zero_grad()
        (loss + training.auxiliary * auxiliary).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % training.log_every == 0:
            rows.append(dict(seed=training.seed, auxiliary=training.auxiliary, step=step, loss=loss.item(),
                             auxiliary_loss=auxiliary.item(), **measure(model.numpy(np.float32), sequences=100),
                             cpu_seconds=time.process_time() - started))
            print(pd.Series(rows[-1]).round(3).to_dict(), flush=True)
    return model.numpy(), rows


def rate(step, training):
    """Learning rate as a share of its peak."""
    if step < training.warm_up:
        return (step + 1) / training.warm_up
    done = (step - training.warm_up) / (training.steps - training.warm_up)
    return 0.5 * (1 + np.cos(np.pi * done))


def measure(weights, sequences=400, seed=1_000_000):
    """Accuracies by hops on sequences that training never saw: full prefill, full reuse, HKVD at 1.2 x the share."""
    model = TinyTransformer({name: weight.astype(np.float32) for name, weight in weights.items()})
    batch = sample(sequences, seed)
    ways = {"full": model.prefill(batch), "reuse": model.reuse(batch), "hkvd": model.blend(batch, 1.2 * batch.bridging_share)}
    return {f"{way}_{hops}": value for way, reading in ways.items() for hops, value in reading.accuracy.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", action="store_true", help="run all trials and write the log")
    torch.set_num_threads(1)
    trials = TRIALS if parser.parse_args().trials else TRIALS[:1]
    results = [train(training) for training in trials]
    weights = results[0][0]
    print("shipped weights, 400 sequences:", measure(weights))
    np.savez(DATA / "tiny_transformer.npz", **weights)
    if trials == TRIALS:
        log = pd.DataFrame([row for _, rows in results for row in rows]).round(4)
        log.to_csv(DATA / "tiny_transformer_log.csv", index=False)


if __name__ == "__main__":
    main()
