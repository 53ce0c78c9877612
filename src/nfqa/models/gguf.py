"""Models in GGUF files, as llama.cpp, Ollama and LM Studio keep them, dequantised once to a folder
for transformers.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from nfqa.files.paths import hash_file, lock_file
from nfqa.models.loading import NoRoomError, explain_failure, open_quietly, refuse_too_large
from nfqa.models.roles import RoleSpec, find_package_file, identify_file

_RECIPE = 2  # counts changes of what a conversion makes; converted folders of another number are not used
_INSTEAD = "or serve it with llama.cpp and name it as openai:MODEL@http://HOST:8080/v1"
# Byte-level tokenizers, by what GGUF files call their way of cutting a text before merging. GPT-2's is the one that
# transformers takes for any that it doesn't know; the second kind first makes each digit a piece.
_AS_GPT2 = {"gpt-2", "mpt", "olmo", "jais", "phi-2"}
_BLANK = "\u2581"  # of SentencePiece
_DIGITS_APART = {"smollm", "starcoder", "refact", "minerva-7b"}


def find_gguf(spec: RoleSpec) -> Path:
    """The GGUF file that a spec names: a package's, one at a path, or one of the hub, which is
    fetched once.

    A file of the hub is looked for in the folder $NFQA_MODELS first, by its name, then in the hub's
    cache.
    Raises: ValueError where the hub doesn't give it, or for another file than the one whose
        verdicts are committed.
    """
    if spec.kind == "package":
        return find_package_file(spec.name)
    file = Path(spec.name) if spec.kind == "path" else find_in_folder(spec) or _fetch(spec)
    identity = identify_file(file)
    if spec.identity.startswith("gguf:") and identity != spec.identity:
        raise ValueError(
            f"{file}: sha256 begins with {identity.rpartition('@')[2]}, but {spec.identity.rpartition('@')[2]} is that"
            " of the file whose verdicts are committed; download it again, it may not be whole, or name another"
            " model's file by path:FILE.gguf"
        )
    return file


def find_in_folder(spec: RoleSpec) -> Path | None:
    """The file of that name in the folder $NFQA_MODELS. Raises: ValueError where that is no folder."""
    if not (models := os.environ.get("NFQA_MODELS")):
        return None
    folder = Path(os.path.expanduser(models))  # noqa: PTH111 - no error without a home
    if not folder.is_dir():
        raise ValueError(f"NFQA_MODELS is {str(folder)!r}; expected a folder with GGUF files, or unset it")
    file = folder / spec.name.rpartition("/")[2]
    return file if file.is_file() else None


def _fetch(spec: RoleSpec) -> Path:
    """The hub's file, from its cache where it is there. Raises: ValueError in one line where it is
    unavailable.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    owner, repository, name = spec.name.split("/", 2)
    where: dict[str, Any] = {"repo_id": f"{owner}/{repository}", "filename": name, "revision": spec.revision}
    if isinstance(cached := try_to_load_from_cache(**where), str):
        return Path(cached)
    with open_quietly(spec), explain_failure(spec, f"; put {name} into a folder, and set NFQA_MODELS to it"):
        return Path(hf_hub_download(**where))


def convert_gguf(file: Path) -> Path:
    """A folder with the model in float32, its tokenizer and its chat template, made once for each
    file.

    It is gguf/HASH in the folder $NFQA_CACHE, else in the user's cache folder. It takes four bytes
    a parameter on disk (SmolLM2 135M: 540 MB), as much memory and a fourth more, and half a minute
    and more.
    Raises: ValueError for a file that `_read_model` refuses, or a folder that can't be written.
    """
    folder = _find_cache() / "gguf" / f"{hash_file(file)[:16]}-{_RECIPE}"
    if folder.is_dir():
        return folder
    from safetensors import SafetensorError

    scratch = folder.with_suffix(".part")
    waiting = f"waiting for another process that converts {file.name}"
    try:
        with lock_file(folder.with_suffix(".lock"), waiting, wait=True):
            if not folder.is_dir():
                seconds = 30 + 70 * file.stat().st_size / 1e9  # measured with 0.1 and 1.1 GB
                print(f"converting {file.name} once, in about {seconds:.0f} seconds", file=sys.stderr)
                shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
                try:
                    with redirect_stderr(StringIO()):  # bars that no setting hides
                        for part in _read_model(file):
                            part.save_pretrained(scratch)
                    scratch.rename(folder)
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{file.name} can't be converted into {folder.parent} ({error}); its weights need four bytes each there:"
            " make room, make the folder writable, or set NFQA_CACHE to another one"
        ) from error
    return folder


def _find_cache() -> Path:
    """The folder $NFQA_CACHE, else this library's in the user's cache folder.

    Raises: ValueError for a user without a home.
    """
    import pooch

    try:
        return Path(os.environ.get("NFQA_CACHE") or pooch.os_cache("nfqa")).expanduser()
    except RuntimeError:  # of platformdirs or pathlib, for a user without a home
        raise ValueError("no home folder to keep converted models in; set NFQA_CACHE to a folder") from None


def _read_model(file: Path) -> tuple[Any, Any]:
    """The model in float32, and its tokenizer.

    Raises: ValueError for a file that is cut or no GGUF file, or which transformers doesn't read,
        or would misread.
    """
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(file.absolute().parent), "gguf_file": file.name}
    options: dict[str, Any] = {"dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
    try:
        fields = _check_fields(file)
        held = sum(int(each.n_elements) for each in GGUFReader(file).tensors)
        refuse_too_large(file.name, held, "float32", advice=f"as it is converted in that, {_INSTEAD}")
        loaded: Any = AutoModelForCausalLM.from_pretrained(**where, **options, output_loading_info=True)
        model, report = loaded
        tokenizer = AutoTokenizer.from_pretrained(**where)
        if missing := sorted(report["missing_keys"]):
            raise ValueError(
                f"it lacks {len(missing)} of the model's weights, such as {missing[0]}; join one of several parts with"
                " `llama-gguf-split --merge`"
            )
        used = sum(each.numel() for each in model.parameters())
        if held > used:
            raise ValueError(f"it holds {held:,} numbers, of which transformers' model would use {used:,}")
    except NoRoomError:
        raise
    except Exception as error:  # the reader of GGUF files raises whatever a damaged file leads it to
        raise ValueError(
            f"{file}: not a GGUF file of a causal language model that can be read here"
            f" ({type(error).__name__}: {str(error).partition(chr(10))[0][:300]}); download it again, choose a text"
            f" model of an architecture that transformers reads from GGUF, such as llama, qwen2 or gemma3, {_INSTEAD}"
        ) from error
    _set_cutting(tokenizer.backend_tokenizer, fields)
    model.hf_quantizer = None  # the weights are plain numbers now, and can be saved
    return model, tokenizer


def _set_cutting(tokenizer: Any, fields: dict[str, Any]) -> None:
    """Let a tokenizer cut texts as the file's fields say where transformers doesn't heed them.

    tokenizer.ggml.pre may make each digit a piece of its own; tokenizer.ggml.add_space_prefix says
    of a SentencePiece tokenizer whether a blank stands before every text, which it does by default,
    whatever the text begins with.
    """
    from tokenizers import normalizers, pre_tokenizers

    kind = fields["tokenizer.ggml.model"]
    if kind == "gpt2" and fields.get("tokenizer.ggml.pre") in _DIGITS_APART:
        parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    elif kind == "llama" and not fields["general.architecture"].startswith("gemma"):
        before = [normalizers.Prepend(_BLANK)] if fields.get("tokenizer.ggml.add_space_prefix", True) else []
        tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", _BLANK)])
        tokenizer.pre_tokenizer = None


def _check_fields(file: Path) -> dict[str, Any]:
    """What the file says of itself.

    Raises: ValueError for a file without a tokenizer, and for one that transformers would misread
        without a word.
    """
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
    from transformers.integrations.gguf.reader import read_gguf_metadata

    fields, tensors = read_gguf_metadata(str(file))
    architecture = fields["general.architecture"]
    cut = fields.get("tokenizer.ggml.pre", "default")
    if "tokenizer.ggml.tokens" not in fields:
        raise ValueError(f"its architecture is {architecture}, and it has no tokenizer")
    kind = fields["tokenizer.ggml.model"]
    splits = set(GGUF_PRE_TOKENIZER_SPLITS)
    misread = cut not in _AS_GPT2 | _DIGITS_APART | splits if kind == "gpt2" else cut in splits
    if misread:
        raise ValueError(
            "transformers would cut texts into other tokens than its tokenizer does, whose tokenizer.ggml.model is"
            f" {kind!r} and tokenizer.ggml.pre {cut!r}"
        )
    rope = {name.removeprefix(f"{architecture}.rope."): value for name, value in fields.items()}
    factors = {rope.get("scaling.factor", 1), rope.get("scale_linear", 1)}
    scaled = (rope.get("scaling.type", "none") != "none" or factors - {0, 1}) and architecture != "gpt-oss"
    if scaled or any(name.startswith("rope_") for name in tensors):
        raise ValueError("transformers would ignore the scaling of its positions (RoPE)")
    return fields
