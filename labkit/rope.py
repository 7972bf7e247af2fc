"""Rotary position embedding: why cached keys can be moved, exactly, to another place (L11 3.3)."""

import numpy as np

from labkit.model import check


def rope_rotate(k, shift, base=10_000.0):
    """Turn pair i of each vector by the angle shift x base^(-2 i / d): the key of a token that stands `shift` later.

    A key at position p is R(p) k, and R(p + shift) = R(shift) R(p); so a key computed at any position is moved by one
    more turn, without the text. Values carry no position and need nothing. Pair i is (k[i], k[i + d/2]), as in Llama.

    Parameters
    ----------
    k : float array (..., d)
        Keys or queries, d even.
    shift : number or array
        Positions to move by, negative to the front; broadcast against the axes of `k` but the last.
    base : float
        Above 0; 10,000 in the RoPE paper, 500,000 in Llama 3.

    Returns
    -------
    array (..., d)
        In the precision of `k`.

    Two turns after each other equal one by the sum to about 1e-15 in float64, for whole positions up to 2^29.

    Raises
    ------
    ValueError
        If d is odd or 0, a shift is not a finite number, or base is not above 0.
    """
    k = np.asarray(k)
    k = k if k.dtype.kind == "f" else k.astype(float)
    if k.ndim == 0 or k.shape[-1] % 2 or not k.shape[-1]:
        raise ValueError(f"k: shape {k.shape}, but its last axis must hold pairs: an even number of dimensions")
    check("base", base, least=0, above=True)
    shift = np.asarray(shift)
    if shift.dtype.kind not in "iuf" or not np.isfinite(shift).all():
        raise ValueError(f"shift={shift!r} must be a finite number of positions, or an array of them")
    half = k.shape[-1] // 2
    turn = _turn(shift[..., None], float(base) ** (-np.arange(half) / half))
    cos, sin = (np.concatenate([part, part], axis=-1).astype(k.dtype) for part in turn)
    quarter_turned = np.concatenate([-k[..., half:], k[..., :half]], axis=-1)       # pair (x, y) -> (-y, x)
    return k * cos + quarter_turned * sin


def _turn(shift, frequency):
    """cos and sin of shift x frequency, as exact at position 100,000 as at 1.

    A rounded product is wrong by its last digit, and that of a large angle is large. The first 24 bits of a frequency
    times a whole number are exact, and the angle that the other bits add is small: cos(a + b) puts both together.
    """
    first = frequency.astype(np.float32).astype(float)
    a, b = shift * first, shift * (frequency - first)
    return np.cos(a) * np.cos(b) - np.sin(a) * np.sin(b), np.sin(a) * np.cos(b) + np.cos(a) * np.sin(b)
