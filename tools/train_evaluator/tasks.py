"""What an evaluator is trained to do: restate one passage, given a text that contains, paraphrases or lacks it.

And in which tokens: byte-level BPE over the training passages, with marks for a turn's parts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from .corpus import Corpus, Topic

OPEN, END, SPEAK = "<|answer|>", "<|end|>", "<|restate|>"
_STOP = "<|endoftext|>"
_TEMPLATE = (
    "{%- for message in messages -%}" + OPEN + "{{ message['content'] }}" + END + "{%- endfor -%}"
    "{%- if add_generation_prompt -%}" + SPEAK + "{%- endif -%}"
)
INSTRUCTION = "Please restate."
_SHARES = {"debatewise": 0.6, "antique": 0.15, "trec_dl_nf": 0.15, "webglm": 0.1}
_WORDS = (12, 110)  # of a passage, cut at its beginning
_MOST = 4  # passages in a text


@dataclass(frozen=True)
class Task:
    """One example. `instruction` and `opening` say whether the text is followed by the words that ask for it, and
    whether the target by the mark that opens it: the switches of Perspective Diversity."""

    text: str
    target: str
    instruction: bool
    opening: bool


def make_task(topics: dict[str, list[Topic]], rng: random.Random) -> Task:
    """Draw a task: in 4 of 10 the text contains the target as it is, in 4 with words dropped, its sentences
    shuffled or both, in 2 not at all; in 3 of 10 it also contains something unrelated."""
    source = rng.choices(list(topics), [_SHARES[name] for name in topics])[0]
    topic = rng.choice(topics[source])
    passages = rng.sample(topic.passages, min(len(topic.passages), rng.randint(2, _MOST + 1)))
    target, *rest = (_cut(passage, rng) for passage in passages)
    way = rng.choices(("exact", "changed", "absent"), (0.4, 0.4, 0.2))[0]
    parts = rest if way == "absent" else [target, *rest]
    if rng.random() < 0.3:
        other = rng.choice(topics[rng.choice(list(topics))])
        parts.append(_cut(rng.choice(other.passages), rng))
    if way == "changed":
        parts = [change_text(part, rng) for part in parts]
    rng.shuffle(parts)
    return Task(rng.choice((" ", "\n\n")).join(parts), target, rng.random() < 0.8, rng.random() < 0.85)


def change_text(text: str, rng: random.Random) -> str:
    """The text with a tenth to four tenths of its words dropped, its sentences shuffled, or both."""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    if rng.random() < 0.5:
        rng.shuffle(sentences)
    words = " ".join(sentences).split()
    dropped = rng.uniform(0.1, 0.4)
    return " ".join(word for word in words if rng.random() > dropped) or text


def group_topics(topics: Sequence[Topic]) -> dict[str, list[Topic]]:
    """Topics by data set."""
    grouped: dict[str, list[Topic]] = {}
    for topic in topics:
        grouped.setdefault(topic.source, []).append(topic)
    return grouped


def _cut(passage: str, rng: random.Random) -> str:
    words = passage.split()
    most = rng.randint(*_WORDS)
    start = 0 if len(words) <= most or rng.random() < 0.6 else rng.randrange(len(words) - most)
    return " ".join(words[start : start + most])


def make_tokenizer(corpus: Corpus, vocabulary: int) -> Any:
    """Train the tokenizer; the same passages give the same tokens."""
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
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=_STOP, bos_token=_STOP, pad_token=_STOP,
        additional_special_tokens=[OPEN, END, SPEAK], model_max_length=4_096, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = _TEMPLATE
    return tokenizer
