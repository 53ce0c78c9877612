"""The embedded evaluators' tokenizer: byte-level BPE over the training passages, with marks for a turn's parts."""

from __future__ import annotations

from typing import Any

from nfqa.lab.training.corpus import Corpus

OPEN, END, SPEAK = "<|answer|>", "<|end|>", "<|restate|>"
_STOP = "<|endoftext|>"
_TEMPLATE = (
    "{%- for message in messages -%}" + OPEN + "{{ message['content'] }}" + END + "{%- endfor -%}"
    "{%- if add_generation_prompt -%}" + SPEAK + "{%- endif -%}"
)


def make_tokenizer(corpus: Corpus, vocabulary: int) -> Any:
    """Train the tokenizer; the same passages give the same tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_STOP, OPEN, END, SPEAK],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(corpus.texts(), trainer)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made, eos_token=_STOP, bos_token=_STOP, pad_token=_STOP,
        additional_special_tokens=[OPEN, END, SPEAK], model_max_length=4_096, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = _TEMPLATE
    return tokenizer
