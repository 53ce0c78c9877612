"""A pretrained causal model and its tokenizer: where they come from, and how a prompt becomes
tokens.
"""

from __future__ import annotations

import hashlib
import os
import re
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nfqa.models.chat import Wrapping
from nfqa.models.engine import Engine
from nfqa.models.gguf import convert_gguf, find_gguf
from nfqa.models.loading import explain_failure, open_quietly, refuse_empty, refuse_too_large
from nfqa.models.roles import COMMITTED_PRECISIONS, RoleSpec, identify_file

_PLACEHOLDER = "PROMPT-GOES-HERE"
_USE_PLAIN = 'use wrapping="plain" (WRAPPING=plain)'
_CHANGED = f"its chat template drops or changes a message's text; {_USE_PLAIN}"
_SAFETENSORS = "; name a model of transformers whose weights are safetensors, and whole"
_BRACKETED = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")  # <|user|>, [/INST]
_CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
# For templates that tell the date: a verdict must not depend on the day.
_FIXED_DAY = "{% macro strftime_now(form) %}{{ {'%Y-%m-%d': '2024-07-26'}.get(form, '26 Jul 2024') }}{% endmacro %}"


class Pretrained:
    """Config, tokenizer and model of `hf:NAME[@REVISION]`, `path:FOLDER`, `path:FILE.gguf` or
    `package:NAME`.

    Each is loaded when it is first needed; a GGUF file is converted once (`nfqa.models.gguf`).

    device: "auto" is what NFQA_DEVICE names, else the accelerator at hand, else cpu. dtype: "auto"
    is bfloat16 on cuda (float16 where it has none) and float32 elsewhere. batch_tokens is the
    `Engine`'s. Weights are read from safetensors alone; remote code is run only if asked for.
    Raises: ValueError for what transformers can't load.
    """

    def __init__(
        self,
        spec: RoleSpec,
        *,
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int = 16_384,
        trust_remote_code: bool = False,
    ) -> None:
        self.name = f"{spec.kind}:{spec.name}"
        self.spec, self._device, self._dtype = spec, device, dtype
        self._found = replace(spec, kind="path") if spec.is_gguf else spec  # nothing of a file is asked of the hub
        self._batch_tokens = batch_tokens
        self._options = {"revision": spec.revision, "trust_remote_code": trust_remote_code}

    @cached_property
    def identity(self) -> str:
        """Name, commit (or revision, or "unpinned"; of a folder or file its hash) and precision."""
        name = self.spec.identity
        if self.spec.kind == "hf" and self.spec.is_gguf:
            name = name if name.startswith("gguf:") else identify_file(find_gguf(self.spec))
        elif self.spec.kind == "hf":
            name = f"{self.name}@{self._find_commit()}"
        return f"{name}|{self.precision}"

    def _find_commit(self) -> str:
        """Of a model of the hub: how the hub's cache calls the folder of its config, which doesn't
        name it itself.
        """
        from huggingface_hub import try_to_load_from_cache

        _ = self.config  # read, so that it is in the cache
        file = try_to_load_from_cache(self.spec.name, "config.json", revision=self.spec.revision)
        return Path(file).parent.name if isinstance(file, str) else self.spec.revision or "unpinned"

    @cached_property
    def template(self) -> str:
        """The word chat and the hash of the tokenizer's chat template, or "none" where it has none."""
        text = self._read_template() or (self.tokenizer.chat_template and self.tokenizer.get_chat_template())
        return f"chat:{hashlib.sha256(text.encode()).hexdigest()[:12]}" if text else "none"

    @cached_property
    def _where(self) -> str:
        """A hub's name of it, or its folder; a GGUF file is converted to one."""
        if not self.spec.is_gguf:
            return self.spec.name
        file = find_gguf(self.spec)
        with open_quietly(self._found):
            return str(convert_gguf(file))

    def _read_template(self) -> str:
        """A folder's chat template, "" where it is kept elsewhere: read without importing
        transformers.
        """
        file = Path(self._where, "chat_template.jinja")
        return file.read_text(encoding="utf-8") if self._found.kind != "hf" and file.is_file() else ""

    def tokenise(self, texts: list[str], wrapping: Wrapping) -> list[list[int]]:
        """Each text as tokens that more can follow. A chat template writes the special ones itself.

        Plain, the tokenizer puts in its own, but for those at the end: a model would write after
        the end of its text.
        """
        plain = wrapping == "plain"
        encoded = self.tokenizer(texts, add_special_tokens=plain, return_special_tokens_mask=plain, verbose=False)
        if not plain:
            return encoded["input_ids"]
        rows = zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)
        return [tokens[: self.count_open(tokens, special)] for tokens, special in rows]

    def count_open(self, tokens: list[int], special: list[int]) -> int:
        """How many tokens there are without those that the tokenizer puts at a text's end; a begin
        mark stays.
        """
        size, least = len(tokens), tokens[:1] == [self.tokenizer.bos_token_id]
        while size > least and special[size - 1]:
            size -= 1
        return size

    def wrap(self, text: str, *, generation_prompt: bool = True) -> str:
        """The text as the one user message of the model's chat template.

        It ends where the model is to speak, or, without a generation prompt, where the user's turn
        is over.
        Raises: ValueError for a template that fails, or that drops or changes the text.
        """
        wrapped = self._render(text, generation_prompt)
        if wrapped.find(text.strip(), self.message_begin) < 0:  # many templates strip a message
            raise ValueError(f"{self.name}: {_CHANGED}")
        return wrapped

    @cached_property
    def message_begin(self) -> int:
        """Where in the chat template's output the message begins."""
        begin = self._render(_PLACEHOLDER, True).find(_PLACEHOLDER)
        if begin < 0:
            raise ValueError(f"{self.name}: {_CHANGED}")
        return begin

    def _render(self, text: str, generation_prompt: bool) -> str:
        template = self.tokenizer.get_chat_template()
        try:
            return self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}],
                chat_template=_FIXED_DAY + template if "strftime_now" in template else template,
                tokenize=False,
                add_generation_prompt=generation_prompt,
            )
        except Exception as error:  # a template is a program: it may refuse a message, or fail in any way
            message = f"{type(error).__name__}: {error}"
            raise ValueError(f"{self.name}: its chat template fails ({message}); {_USE_PLAIN}") from error

    def find_marks(self, wrapping: Wrapping) -> frozenset[str]:
        """The strings that end a turn or begin one, as the tokenizer and the chat template have
        them.
        """
        tokenizer = self.tokenizer
        added = tokenizer.added_tokens_decoder.values()
        marks = {*tokenizer.all_special_tokens, *(token.content for token in added if token.special)}
        if wrapping == "chat":
            if self.template == "none":
                raise ValueError(f"{self.name} has no chat template to wrap a prompt in; {_USE_PLAIN}")
            marks |= set(_BRACKETED.findall(self.wrap(_PLACEHOLDER)))
        return frozenset(mark.strip() for mark in marks if mark.strip())

    @cached_property
    def config(self) -> Any:
        """The model's shape; read without its weights."""
        from transformers import AutoConfig

        return self._load(AutoConfig)

    @property
    def context(self) -> int | None:
        """The model's longest input, in tokens, or None where its config names none (as of
        state-space models).
        """
        text = self.config.get_text_config(decoder=True)
        return next((int(size) for name in _CONTEXT_FIELDS if (size := getattr(text, name, None))), None)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's own tokenizer."""
        from transformers import AutoTokenizer

        tokenizer = self._load(AutoTokenizer)
        refuse_empty(tokenizer, self.spec)
        return tokenizer

    @cached_property
    def model(self) -> Any:
        """The model, on its device and ready to be run."""
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        # GPT-2's activation takes transformers six steps; torch has the same function in one
        slow = [name for name in ("activation_function", "hidden_act") if getattr(self.config, name, "") == "gelu_new"]
        options = dict.fromkeys(slow, "gelu_pytorch_tanh") | {"dtype": getattr(torch, self.precision)}
        if self.spec.is_gguf:  # converted, in float32
            weights = sum(file.stat().st_size for file in Path(self._where).glob("*.safetensors")) // 4
            half, serve = "set NFQA_DTYPE=bfloat16, which takes half", "serve it by llama.cpp, or name a smaller model"
            advice = f"or {half if self.precision == 'float32' else serve}"
            refuse_too_large(self.name, weights, self.precision, advice=advice)
        model, report = self._load(AutoModelForCausalLM, use_safetensors=True, output_loading_info=True, **options)
        if missing := sorted(report["missing_keys"]):
            raise ValueError(
                f"{self.name} lacks {len(missing)} of the model's weights, such as {missing[0]}; download it again, or"
                " choose another model"
            )
        if self.precision in ("bfloat16", "float16"):
            widen_head(model)
        model = model.to(self.place).eval()
        stops = model.generation_config.eos_token_id
        # Only the stops stay: generate would take a penalty or a top-k from here.
        model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            eos_token_id=self.tokenizer.eos_token_id if stops is None else stops
        )
        return model

    @cached_property
    def engine(self) -> Engine:
        """What runs the model."""
        return Engine(self.model, batch_tokens=self._batch_tokens)

    def close(self) -> None:
        """Let go of the model's memory; it is loaded again when it is next needed."""
        import torch

        for name in ("engine", "model"):
            self.__dict__.pop(name, None)
        torch.cuda.empty_cache()  # nothing without a device

    @property
    def stops(self) -> frozenset[int]:
        """The tokens that end a completion."""
        stops = self.model.generation_config.eos_token_id
        return frozenset([stops] if isinstance(stops, int) else stops or ())

    @cached_property
    def place(self) -> str:
        """The device."""
        import torch

        device = os.environ.get("NFQA_DEVICE") if self._device == "auto" else self._device
        return str(device or torch.accelerator.current_accelerator(check_available=True) or "cpu")

    @cached_property
    def precision(self) -> str:
        """The dtype by name."""
        if self._dtype != "auto":
            return self._dtype
        if committed := COMMITTED_PRECISIONS.get(self.spec.identity):
            return committed
        if not self.place.startswith("cuda"):
            return "float32"
        import torch

        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"

    def _load(self, loader: Any, **more: Any) -> Any:
        where = self._where
        cure = f"; delete {where}, and it is converted again" if self.spec.is_gguf else _SAFETENSORS
        with open_quietly(self._found), explain_failure(self.spec, cure):
            return loader.from_pretrained(where, **self._options, **more)


def widen_head(model: Any) -> None:
    """Let a model of half precision compute its logits in float32, from states in half precision.

    A logit of 20 in bfloat16 is a multiple of 1/8, so that verdicts of equal probability are ties
    or apart by chance: on 680 verdicts of a model of 0.5 billion parameters the median difference
    from float32 falls from 0.07 to 0.04.
    """
    if (head := model.get_output_embeddings()) is not None:
        wide = deepcopy(head).float()  # the weights may be those of the embeddings, which stay
        wide.register_forward_pre_hook(lambda _, states: (states[0].float(),))
        model.set_output_embeddings(wide)


def break_marks(text: str, marks: frozenset[str]) -> str:
    """The text with a space after the first character of every mark: `</s>` becomes `< /s>`.

    A tokenizer reads the string of a control token in any text as that token, so a candidate could
    end the prompt or speak as the model. A mark of one character becomes a space.
    """
    while matches := [mark for mark in marks if mark in text]:
        for mark in sorted(matches, key=len, reverse=True):
            text = text.replace(mark, f"{mark[0]} {mark[1:]}" if len(mark) > 1 else " ")
    return text
