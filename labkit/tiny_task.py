"""The task of the small transformer: facts in three documents, chains that run through them, questions after them.

Three documents hold facts "s -> o", one token each, of symbols that are drawn anew for every sequence. Chains run
through the documents, E -> a in the first, a -> b in the second, b -> v in the third; the other facts are noise. A fact
of a chain in documents 2 and 3 *bridges*: another fact, in the document before, points to it.
"""

from dataclasses import dataclass

import numpy as np

from labkit import checks
from labkit.model import check

SYMBOLS = 128                        # names that subjects and objects are drawn from, anew for every sequence
NONE = SYMBOLS                       # "no symbol": the zero vector
DOCUMENTS = 3
FACTS = 14                           # a document, beside its start token; more where the share of bridging asks for it
MOST_FACTS = 21                      # 3 x 21 facts use 126 symbols
MOST_CHAINS = 6                      # more leave too few noise facts in 14
START, FACT, QUESTION = 0, 1, 1      # kinds of token; a question of h hops is QUESTION + h


@dataclass(frozen=True, eq=False)
class Batch:
    """n sequences of documents (T tokens) and the Q questions asked after them.

    tokens : int array (n, T, 2), subject and object; `NONE` twice in a start token.
    bridging : bool array (n, T), facts that the fact of an earlier document points to.
    refers_to : int array (n, T), the subject of that fact; `NONE` elsewhere.
    questions, answers : int arrays (n, Q), the symbol asked about and the one to be named.
    hops : int array (Q,), facts to follow: 1, 2 or 3.
    luck : float array (n, T), what rule "random" goes by, drawn once so that a larger share contains the smaller one.
    """

    tokens: np.ndarray
    bridging: np.ndarray
    refers_to: np.ndarray
    questions: np.ndarray
    answers: np.ndarray
    hops: np.ndarray
    luck: np.ndarray

    def __repr__(self):
        n, length, _ = self.tokens.shape
        return (f"Batch of {n} sequences: {length} tokens and {len(self.hops)} questions each, "
                f"{self.bridging_share:.1%} of documents 2 and 3 bridge (in .tokens, .questions, .answers, .bridging)")

    @property
    def document_tokens(self):
        """Tokens a document."""
        return self.tokens.shape[1] // DOCUMENTS

    @property
    def bridging_share(self):
        """Bridging facts / tokens of documents 2 and 3: where the knee is to be expected."""
        return float(self.bridging[:, self.document_tokens:].mean())


def layout(bridging):
    """Chains and facts a document whose share chains / (facts + 1) comes nearest to `bridging`: (chains, facts).

    The shortest documents within half a percentage point are taken: 0.27 -> 4 of 15, 0.13 -> 2 of 15, 0.09 -> 2 of 22.
    """
    check("bridging", bridging, least=0.04, most=0.42)
    designs = [(chains, facts) for facts in range(FACTS, MOST_FACTS + 1) for chains in range(1, MOST_CHAINS + 1)]
    errors = [abs(chains / (facts + 1) - bridging) for chains, facts in designs]
    close = max(0.005, min(errors))
    return next(design for design, error in zip(designs, errors) if error <= close)


def sample(n, seed, bridging=4 / 15):
    """n new sequences of the task.

    Parameters
    ----------
    n : int
        Sequences, at least 1.
    seed : int or numpy Generator
    bridging : float
        Share of bridging facts among the tokens of documents 2 and 3, 0.04 to 0.42 (see `layout`). The default is
        four chains, 8 of 30 tokens.

    Returns
    -------
    Batch
        With 1 question of one hop (a noise fact), 2 of two hops (E -> b, a -> v), 1 of three (E -> v) for each chain.
    """
    return draw(n, seed, *layout(bridging))


def draw(n, seed, chains, facts):
    """As `sample`, for a number of chains and of facts a document: 1 <= chains < facts, 6 facts - 2 chains <= 128."""
    checks.whole("draw: n", n, 1)
    if not isinstance(seed, np.random.Generator):
        checks.whole("draw: seed", seed, 0)
    noise = facts - chains
    rng = np.random.default_rng(seed)
    symbols = rng.permuted(np.tile(np.arange(SYMBOLS), (n, 1)), axis=1)
    chain = symbols[:, :4 * chains].reshape(n, chains, 4)                       # E, a, b, v
    pairs = symbols[:, 4 * chains:][:, :6 * noise].reshape(n, DOCUMENTS, noise, 2)

    tokens = np.full((n, DOCUMENTS, facts + 1, 2), NONE)
    refers_to = np.full((n, DOCUMENTS, facts + 1), NONE)
    for document in range(DOCUMENTS):
        tokens[:, document, 1:chains + 1] = chain[:, :, document:document + 2]
        tokens[:, document, chains + 1:] = pairs[:, document]
        if document:
            refers_to[:, document, 1:chains + 1] = chain[:, :, document - 1]
    order = rng.random((n, DOCUMENTS, facts + 1))
    order[..., 0] = -1                                                          # the start token stays in front
    order = order.argsort(-1)
    tokens = np.take_along_axis(tokens, order[..., None], 2).reshape(n, -1, 2)
    refers_to = np.take_along_axis(refers_to, order, 2).reshape(n, -1)

    asked = pairs.reshape(n, -1, 2)[:, rng.permutation(DOCUMENTS * noise)[:chains]]
    E, a, b, v = np.moveaxis(chain, 2, 0)
    return Batch(tokens, refers_to != NONE, refers_to,
                 questions=np.concatenate([asked[..., 0], E, a, E], axis=1),
                 answers=np.concatenate([asked[..., 1], b, v, v], axis=1),
                 hops=np.repeat([1, 2, 2, 3], chains),
                 luck=rng.random(refers_to.shape))
