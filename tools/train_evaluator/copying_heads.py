"""A GPT-2 that copies from its context before any training: previous-token and induction heads by construction.

A small model trained for an hour on a CPU forms no copying heads by itself, and without them it hardly reads the
answer that it is given. So they are put in: the first layer's first head writes to every place a code of the token
before it; heads of a later layer look for places whose code is that of the current token, and predict the token there.
Training then goes on from this, with nothing held fixed but the positions.

Source: Elhage et al. 2021 and Olsson et al. 2022 describe such heads in trained models; the construction is ours.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

HEAD = 64  # dimensions of a head, of the positions' code and of the code of the token before
_TOKEN_SCALE = 0.09  # of the token vectors, which are the output matrix too: larger is surer of what it copies
_SHARPNESS_BACK = 1.6  # how sharply the first head looks one place back, per unit of cosine summed over frequencies
_SHARPNESS_MATCH = 14.0  # how sharply a code is matched, per unit of cosine
_COPY_STRENGTH = 2.5  # of what a copying head writes, against the token's own vector


def put_in_copying_heads(model: Any, seed: int) -> None:
    """Overwrite a GPT-2's token and position vectors and its first copying heads, in place.

    Dimensions of the residual stream [d]: the token's vector [d - 128], its position as cosines and sines of 32
    frequencies [64], and the code of the token before [64]. Layer 0, head 0 scores place j from place i by
    sum over frequencies of cos(w (i - 1 - j)); the induction layer is the last but one where there are three layers
    or more, else the last, and all its heads but one copy.
    Raises: ValueError where a head has not 64 dimensions, or there are fewer than two layers or three heads.
    """
    config = model.config
    if config.n_embd != HEAD * config.n_head or config.n_layer < 2 or config.n_head < 3:
        raise ValueError(
            f"{config.n_layer} layers, {config.n_head} heads and {config.n_embd} dimensions;"
            f" expected 2 or more, 3 or more, and {HEAD} dimensions a head"
        )
    generator = torch.Generator().manual_seed(seed)
    tokens = slice(0, config.n_embd - 2 * HEAD)
    places = slice(tokens.stop, tokens.stop + HEAD)
    before = slice(places.stop, config.n_embd)
    with torch.no_grad():
        embedded = torch.randn(config.vocab_size, tokens.stop, generator=generator)
        model.transformer.wte.weight.zero_()
        model.transformer.wte.weight[:, tokens] = embedded * _TOKEN_SCALE
        frequencies = torch.rand(HEAD // 2, generator=generator) * (math.pi - 0.05) + 0.05
        angles = torch.arange(config.n_positions)[:, None] * frequencies
        model.transformer.wpe.weight.zero_()
        model.transformer.wpe.weight[:, places] = torch.cat([angles.cos(), angles.sin()], 1) * _TOKEN_SCALE * 2**0.5
        code = _draw_orthonormal(tokens.stop, HEAD, generator)  # [d_token, 64]
        first = model.transformer.h[0].attn
        _clear_head(first, 0)
        _set_query_and_key(first, 0, places, torch.eye(HEAD), _turn_by_one(frequencies), _SHARPNESS_BACK)
        _set_value(first, 0, tokens, code, before, torch.eye(HEAD) * 1.5)
        copier = model.transformer.h[max(1, config.n_layer - 2)].attn
        for head in range(config.n_head - 1):
            carried = _draw_orthonormal(tokens.stop, HEAD, generator)
            _clear_head(copier, head)
            _set_query_and_key(copier, head, tokens, code, torch.eye(HEAD), _SHARPNESS_MATCH, keys=before)
            _set_value(copier, head, tokens, carried, tokens, carried.T * _COPY_STRENGTH)


def _draw_orthonormal(rows: int, columns: int, generator: Any) -> Tensor:
    drawn = torch.randn(rows, columns, generator=generator)
    return drawn / rows**0.5 if rows < columns else torch.linalg.qr(drawn).Q


def _turn_by_one(frequencies: Tensor) -> Tensor:
    """The matrix that takes a place's code to the code of the next place: a rotation of each pair."""
    cosines, sines = frequencies.cos().diag(), frequencies.sin().diag()
    return torch.cat([torch.cat([cosines, sines], 1), torch.cat([-sines, cosines], 1)], 0)


def _clear_head(attention: Any, head: int) -> None:
    width = attention.c_attn.weight.shape[0]
    for part in range(3):
        columns = slice(part * width + head * HEAD, part * width + (head + 1) * HEAD)
        attention.c_attn.weight[:, columns] = 0
        attention.c_attn.bias[columns] = 0
    attention.c_proj.weight[head * HEAD : (head + 1) * HEAD] = 0


def _set_query_and_key(
    attention: Any, head: int, queries: slice, query: Tensor, key: Tensor, sharpness: float, keys: slice | None = None
) -> None:
    """Scores are sharpness times the cosine, whatever torch divides by."""
    width = attention.c_attn.weight.shape[0]
    scale = (sharpness * HEAD**0.5) ** 0.5 / HEAD**0.25
    columns = slice(head * HEAD, (head + 1) * HEAD)
    attention.c_attn.weight[queries, columns] = query * scale
    attention.c_attn.weight[keys or queries, width + columns.start : width + columns.stop] = key * scale


def _set_value(attention: Any, head: int, read: slice, value: Tensor, written: slice, out: Tensor) -> None:
    width = attention.c_attn.weight.shape[0]
    columns = slice(head * HEAD, (head + 1) * HEAD)
    attention.c_attn.weight[read, 2 * width + columns.start : 2 * width + columns.stop] = value
    attention.c_proj.weight[columns, written] = out * _TOKEN_SCALE
