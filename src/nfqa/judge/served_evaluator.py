"""The evaluator role behind a server: P.D. by a model that is too large for this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nfqa.judge.asking import Asker
from nfqa.kernels.parse import Verdict
from nfqa.kernels.perplexity import Settings
from nfqa.models.chat import Decoding, Reply, Request
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated, TargetLoss

ECHO = Decoding(reading="echo", wrapping="plain")


class ServedEvaluator(Evaluator):
    """A causal language model that scores restatements through a server's completions, by `openai:MODEL[@URL]`.

    A server knows its tokens, not where an answer ends: context and target go as one text (`boundary` "joint"), without
    a chat template (`wrapping` "plain") and with control marks as they are; what is too long for the model is missing.
    asker: of the "echo" reading, whose journal keeps each loss.
    """

    chats = False  # a server is given the text as it is

    def __init__(self, asker: Asker) -> None:
        self.spec, self.asker, self.cache = asker.spec, asker, None

    @property
    def identity(self) -> str:
        """Model and tag."""
        return f"{self.asker.identity}|cache:none"

    def adapt(self, settings: Settings) -> Settings:
        """The settings that a server can keep to."""
        return replace(settings, boundary="joint", wrapping="plain", marks="kept", padding="none")

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The loss of each target of each item, in the items' order; without one, the reason that the server gave.

        Raises: StoppedError as `Asker.ask`, or for a server that gives no log-probabilities of a prompt.
        """
        before, after = settings.frame
        known: dict[Request, TargetLoss] = {}

        def read(reply: Reply, request: Request) -> Verdict:
            logprobs = reply.logprobs or ()
            nats = float(f"{0.0 - sum(logprobs):.6g}")
            known[request] = TargetLoss(
                nats, len(logprobs), reply.prompt_tokens, reason="" if logprobs else "no_tokens"
            )
            return Verdict(nats if logprobs else None, "" if logprobs else "no_tokens")

        def ask_for(context: str, target: str) -> Request:
            return Request(before + settings.join(context) + after, labels=(target,))

        requests = [[ask_for(item.context, target) for target in item.targets] for item in items]
        flat = [request for row in requests for request in row]
        reasons = {one: verdict.reason for one, verdict in zip(flat, self.asker.ask(flat, read), strict=True)}
        return [
            [known.get(one) or TargetLoss(math.nan, 0, 0, reason=f"server: {reasons[one]}") for one in row]
            for row in requests
        ]

    def forget(self) -> None:
        """Nothing: the journal keeps the losses."""

    def close(self) -> None:
        """Let go of the connections."""
        self.asker.close()
