"""The cache's weight and sharpness, chosen by likelihood on claims that neither training nor an evaluation sees."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nfqa.kernels.perplexity import PAPER
from nfqa.models.engine import ContinuousCache
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated
from nfqa.models.roles import RoleSpec

from .corpus import Topic
from .tasks import group_topics, make_task

_THETAS = (5.0, 10.0, 20.0, 40.0)
_WEIGHTS = (0.05, 0.1, 0.2, 0.3)
_TASKS = 120


def tune_evaluator(folder: Path, topics: Sequence[Topic]) -> ContinuousCache:
    """Choose a trained model's cache and write it, with what was tried, into its evaluator.json.

    The best has the lowest mean nats a token on targets of training's own kind of task; tried are a grid of sharpness
    and weight, and no cache (weight 0), for the record.
    """
    grouped = group_topics(topics)
    rng = random.Random(0)
    tasks = [make_task(grouped, rng) for _ in range(_TASKS)]
    items = [Restated(task.text, (task.target,)) for task in tasks]
    grid = [ContinuousCache(theta, weight) for theta in _THETAS for weight in _WEIGHTS]
    spec = RoleSpec("evaluator", "path", str(folder))
    tried = []
    for one in (None, *grid):
        losses = [row[0] for row in Evaluator(spec, cache=one).score(items, PAPER)]
        nats = float(np.mean([loss.nats / loss.tokens for loss in losses]))
        tried.append({"theta": one.theta if one else 0.0, "weight": one.weight if one else 0.0, "nats": nats})
    best = min(tried[1:], key=lambda entry: entry["nats"])
    cache = ContinuousCache(best["theta"], best["weight"])
    path = folder / "evaluator.json"
    about = json.loads(path.read_text(encoding="utf-8")) | {"cache": asdict(cache), "cache_tried": tried}
    path.write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return cache
