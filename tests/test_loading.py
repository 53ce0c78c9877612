"""Models that can't be loaded: one line that names the model, what it lacks, and what to do, in every role."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file
from test_embed import make_model
from tiny_models import make_tiny_model

from nfqa.kernels.perplexity import settings
from nfqa.models.causal_lm import CausalLM
from nfqa.models.chat import Decoding, Request
from nfqa.models.embed import Embedder
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated
from nfqa.models.roles import parse_role

LOGITS = Decoding(reading="logits", wrapping="plain")
ROLES: dict[str, Callable[[str], Any]] = {
    "judge": lambda spec: list(CausalLM(parse_role("judge", spec)).answer([Request("a", labels=("1", "2"))], LOGITS)),
    "evaluator": lambda spec: Evaluator(parse_role("evaluator", spec)).score([Restated("a", ("b",))], settings()),
    "embedder": lambda spec: Embedder(spec).embed_sentences(["the cat"]),
}


def change_config(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def quantise(method: str, **options: Any) -> Callable[[Path], None]:
    return change_config(quantization_config={"quant_method": method, "bits": 4, "group_size": 128} | options)


def remove(folder: Path, pattern: str) -> None:
    for file in folder.rglob(pattern):
        file.unlink()


def remove_tokenizer(folder: Path) -> None:
    remove(folder, "tokenizer*")
    remove(folder, "vocab*")


def halve(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def drop_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    weights = load_file(file)
    weights.pop("model.layers.1.self_attn.q_proj.weight")
    save_file(weights, file, metadata={"format": "pt"})


CODE = {"AutoConfig": "x.X", "AutoModel": "x.X", "AutoModelForCausalLM": "x.X"}
SERVED = ["path:FILE.gguf", "openai:MODEL"]
CASES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "gptq": (quantise("gptq"), ["GPTQ", "not quantised"]),
    "code": (change_config(model_type="x_new", auto_map=CODE), ["custom code", "choose a model without code"]),
    "no weights": (lambda folder: remove(folder, "*.safetensors"), ["model.safetensors"]),
    "half the weights": (halve, ["incomplete"]),
    "no tokenizer": (remove_tokenizer, ["tokenizer"]),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    language, sentences = make_tiny_model(folder / "language"), make_model(folder / "sentences")
    embedder = Path(sentences.removeprefix("path:"))
    return {"judge": language, "evaluator": language, "embedder": embedder}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("case", CASES)
def test_what_can_not_be_loaded_is_told_in_one_line(case: str, role: str, models: Any, tmp_path: Path) -> None:
    damage, facts = CASES[case]
    folder = tmp_path / "model"
    shutil.copytree(models[role], folder)
    damage(folder)
    with pytest.raises(ValueError) as caught:
        ROLES[role](f"path:{folder}")
    message = str(caught.value)
    if "not quantised" in facts and role in ("judge", "evaluator"):
        facts = [*facts, *SERVED]
    if case == "code" and role == "judge":
        facts = [*facts, "NFQA_TRUST_REMOTE_CODE=yes"]
    assert [fact for fact in [f"path:{folder}", *facts] if fact not in message] == []
    assert "\n" not in message
    assert message.count("can't be loaded") <= 1


def test_weights_that_are_not_there_are_not_made_up(models: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models["judge"], folder)
    drop_weights(folder)
    for role in ("judge", "evaluator"):
        with pytest.raises(ValueError, match=r"path:.* lacks 1 of the model's weights, such as model\.layers\.1"):
            ROLES[role](f"path:{folder}")
