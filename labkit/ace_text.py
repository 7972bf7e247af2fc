"""What a playbook needs to know about text: how long it is, and how alike two pieces are. No network, no model."""

import re
import zlib

import numpy as np

# Letters of scripts that write no spaces (kana, Chinese, Hangul) count as one word each.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def count_tokens(text):
    """ceil(UTF-8 bytes / 4): close to usual tokenizers for English, about 0.75 a Chinese character."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def bag_of_words(texts, dims=1024):
    """How often each word occurs, each word hashed to one of `dims` places and a sign.

    Any other ``embed(texts) -> (n, d)`` may stand in, such as the `encode` of a sentence-transformers model.

    Parameters
    ----------
    texts : list of str
    dims : int
        Places; two of the words of a playbook rarely share one of 1,024.

    Returns
    -------
    ndarray, shape (n, dims)
        A text without a word has a zero row, and is like nothing.
    """
    vectors = np.zeros((len(texts), dims))
    for row, text in enumerate(texts):
        for word in WORD.findall(text.lower()):
            place = zlib.crc32(word.encode("utf-8", "surrogatepass"))  # not hash(), which differs from run to run
            vectors[row, place % dims] += 1 if place & (1 << 31) else -1
    return vectors


def cosines(vectors):
    """(n, n) cosine similarity of each pair of rows; 0 where a row is zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit @ unit.T
