"""One step of training a cartridge: forward pass, gradient by hand, teacher, Adam, in buffers that are used again and again.

    d loss / d out = 10 (E[value] under the student - target),    and by the chain rule to values and keys

Worth most, in this order: the teacher is reduced to 64 numbers a question; float32 and `out=`; the 64-wide result is divided by
the softmax's denominator, not the softmax; one Adam over keys and values together. Matrix products take most of what is left.
"""

import math

import numpy as np

from labkit.cartridge_world import BETA, DIM, READOUT

BETA1, EPSILON = 0.9, 1e-8  # Adam
ROWS = 256  # questions that the teacher reads at once, about: its buffers stay in the processor's cache
SAFE = 40.0  # exp of no more than this, either way, has room in float32 for the products of a step


class Reader:
    """The model's forward pass for up to `rows` questions, in buffers that are used again and again.

    After `read`: out (m, 64); mean (m, 64), the mean value embedding under the read-out; log_total (m, 1), the log of the
    read-out's denominator; weights (m, p) and weight_total (m, 1), whose quotient is the attention.
    """

    def __init__(self, rows, size, embeddings):
        def buffer(columns):
            return np.empty((rows, columns), embeddings.dtype)
        self.embeddings, self.sharp = embeddings, READOUT * embeddings
        self._keys = np.empty((size, DIM), embeddings.dtype)
        self._weights, self._out, self._logits, self._mean = buffer(size), buffer(DIM), buffer(len(embeddings)), buffer(DIM)

    def read(self, questions, keys, values):
        rows = len(questions)
        self.weights, self.out, self.mean, logits = self._weights[:rows], self._out[:rows], self._mean[:rows], self._logits[:rows]
        np.matmul(questions, np.multiply(keys, BETA, out=self._keys).T, out=self.weights)
        _, self.weight_total = self._exponentials(self.weights)
        np.matmul(self.weights, values, out=self.out)
        self.out /= self.weight_total  # 64 divisions a question, not p; below 64, not V
        np.matmul(self.out, self.sharp.T, out=logits)
        peak, total = self._exponentials(logits)
        np.matmul(logits, self.embeddings, out=self.mean)
        self.mean /= total
        self.log_total = peak + np.log(total)

    def _exponentials(self, scores):
        """exp(scores - peak) in place; returns peak and sum of each row. The peak is the row's maximum, or 0 if that is safe."""
        peak = 0
        if max(scores.max(), -scores.min()) > SAFE:  # looking at the whole takes half the time of maximum and difference by row
            peak = scores.max(axis=1, keepdims=True)
            scores -= peak
        np.exp(scores, out=scores)
        return peak, _row_sums(scores)


class FactReader(Reader):
    """A reader of facts: rows of length 1 keep every score within 20, whose exponential float32 holds without a maximum."""

    def _exponentials(self, scores):
        np.exp(scores, out=scores)
        return 0, _row_sums(scores)


def _row_sums(rows):
    return np.einsum("ij->i", rows)[:, None]  # half the time of rows.sum(axis=1)


class Student(Reader):
    """Loss and gradient of a cartridge (2, p, 64)."""

    def __init__(self, rows, size, embeddings):
        super().__init__(rows, size, embeddings)
        self._errors = np.empty_like(self._weights)
        self._gradient = np.empty((2, size, DIM), embeddings.dtype)

    def gradient(self, cartridge, questions, targets, constants):
        """Mean of log_total - 10 out . target + constant, and its gradient by keys and values.

        `targets` (m, 64) and `constants` (m, 1) are those of `Teacher.teach`; for a right answer its value and 0.
        """
        keys, values = cartridge
        self.read(questions, keys, values)
        loss = (np.sum(self.log_total) + np.sum(constants) - READOUT * np.vdot(self.out, targets)) / len(questions)
        slope = self.mean  # by `out`, divided by the attention's denominator: the weights are not normalised either
        slope -= targets
        slope *= READOUT / len(questions) / self.weight_total
        np.matmul(self.weights.T, slope, out=self._gradient[1])
        errors = np.matmul(slope, values.T, out=self._errors[:len(questions)])
        errors -= np.einsum("ij,ij->i", slope, self.out)[:, None]
        errors *= self.weights
        np.matmul(errors.T, questions, out=self._gradient[0])
        self._gradient[0] *= BETA
        return float(loss), self._gradient


class Adam:
    """x -= rate m / (sqrt(v) + 1e-8), m and v the bias-corrected running means of gradient and its square (Kingma and Ba)."""

    def __init__(self, cartridge, lr_keys, lr_values, beta2):
        self.x, self.beta2, self.count = cartridge, beta2, 0
        self.rates = np.array([lr_keys, lr_values], cartridge.dtype).reshape(2, 1, 1)
        self.mean, self.square = np.zeros_like(cartridge), np.zeros_like(cartridge)  # before division by the sum of their weights
        self._term = np.empty_like(cartridge)

    def update(self, gradient, scale=1.0):
        """One step down `gradient`, with the rates times `scale`."""
        self.count += 1
        term = self._term
        self.mean *= BETA1
        self.mean += gradient
        self.square *= self.beta2
        self.square += np.multiply(gradient, gradient, out=term)
        # (1 - beta) / (1 - beta^count) makes means of the sums, bias corrected
        by_mean = (1 - BETA1) / (1 - BETA1**self.count)
        by_root = math.sqrt((1 - self.beta2) / (1 - self.beta2**self.count))
        np.sqrt(self.square, out=term)
        term += EPSILON / by_root
        np.divide(self.mean, term, out=term)
        term *= self.rates * (scale * by_mean / by_root)
        self.x -= term


class Teacher:
    """The same model with a question's chunk of the document in its cache."""

    def __init__(self, facts, chunk, embeddings):
        self.keys, self.values = facts.keys.astype(embeddings.dtype), embeddings
        self.chunk = min(chunk, len(facts))
        # the document's last chunk may be shorter
        self.readers = {size: FactReader(ROWS * 3 // 2, size, embeddings) for size in {self.chunk, len(facts) % self.chunk} - {0}}

    def teach(self, questions, asked, out=None):
        """Targets (m, 64), mean value embeddings, and constants (m, 1), minus the entropies, so that the loss is the KL.

        `out` : two arrays to be filled; new ones by default.
        """
        targets, constants = out or (np.empty_like(questions), np.empty((len(questions), 1), questions.dtype))
        chunks = asked // self.chunk
        for chunk in np.unique(chunks):
            rows = np.flatnonzero(chunks == chunk)
            part = slice(chunk * self.chunk, (chunk + 1) * self.chunk)
            keys, values = self.keys[part], self.values[part]
            reader = self.readers[len(keys)]
            for some in np.array_split(rows, max(1, round(len(rows) / ROWS))):
                reader.read(questions[some], keys, values)
                targets[some] = reader.mean
                agreement = READOUT * np.einsum("ij,ij->i", reader.out, reader.mean)[:, None]
                constants[some] = agreement - reader.log_total
        return targets, constants


class AnswerKey:
    """In the teacher's place: the right value, for sure."""

    def __init__(self, facts, chunk, embeddings):
        self.values = embeddings

    def teach(self, questions, asked, out=None):
        targets, constants = out or (np.empty_like(questions), np.empty((len(questions), 1), questions.dtype))
        np.take(self.values, asked, axis=0, out=targets, mode="clip")  # another mode would buffer
        constants[:] = 0
        return targets, constants
