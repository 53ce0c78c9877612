"""Low-rank additions to a model's weights: the listwise judge's to the packaged embedder, the
reader's to SmolLM2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nfqa.models.roles import MODELS

if TYPE_CHECKING:
    from torch import nn

ADAPTERS = MODELS / "judge"


def name_adapter(fold: int | None) -> str:
    """The adapter that has not seen a fold of ANTIQUE, or that of all of ANTIQUE for questions from
    elsewhere.
    """
    return "all" if fold is None else f"without_fold_{fold}"


def find_adapter(name: str) -> Path:
    """The file of the listwise judge's adapter of that name. Raises: ValueError where there is
    none.
    """
    file = ADAPTERS / f"{name}.safetensors"
    if not file.is_file():
        raise ValueError(f"there is no adapter {name!r} at {file}; reinstall nfqa, or train it as its README says")
    return file


def apply_adapter(model: nn.Module, file: Path) -> None:
    """Add an adapter to a model's weights in place: W + U D for each layer that the file names.

    Args: file: safetensors with `LAYER.down`, [r, in], and `LAYER.up`, [out, r], for each layer.
    Raises: ValueError where the model lacks a layer: the adapter is another model's.
    Source: Hu et al. 2022, LoRA, equation 3, merged.
    """
    import torch
    from safetensors.torch import load_file

    parts = load_file(file)
    with torch.no_grad():
        for layer in sorted(name.removesuffix(".up") for name in parts if name.endswith(".up")):
            try:
                weight = model.get_parameter(f"{layer}.weight")
            except AttributeError:
                raise ValueError(f"{file.name} is an adapter of another model; this one has no layer {layer}") from None
            weight.add_(parts[f"{layer}.up"].float() @ parts[f"{layer}.down"].float())
