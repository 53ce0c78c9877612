"""Other frameworks as installed, with our measures by name; in a folder of their own, as their needs differ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT

import nfqa
from nfqa.frameworks import score_answer

GIVEN = {
    "references": ["Rivers carry salt to the sea.", "It is wet.", "No."],
    "partial_answers": ["It comes by rivers.", "It was always there."],
}
ASKED = {"question": "Why is the sea salt?", "answer": "Rivers carry salt into it.", "given": GIVEN}
RUN = """
import asyncio, json, math, sys
from pathlib import Path
import lm_eval
import nfqa.frameworks
from inspect_ai import Task, eval as run
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from deepeval.test_case import LLMTestCase
from nfqa.frameworks.deepeval_metrics import NfqaMetric
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from nfqa.frameworks.inspect_scorers import coverage, dispute_awareness, linkage_rank, perspective_diversity

asked, tiny = json.loads(sys.argv[1]), {"evaluator": sys.argv[5]}
written = ModelOutput.from_content("mockllm/model", asked["answer"])
written.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # or it fetches a tokenizer, to count
model = get_model("mockllm/model", custom_outputs=[written])
sample = Sample(input=asked["question"], metadata=asked["given"])
scorers = [perspective_diversity(**tiny), dispute_awareness(), linkage_rank(), coverage()]
(log,) = run(Task(dataset=[sample], scorer=scorers), model=model, display="none", log_dir=sys.argv[2])
found = {"inspect": {name: score.value for name, score in log.samples[0].scores.items()}, "deepeval": {}}
case = LLMTestCase(input=asked["question"], actual_output=asked["answer"], metadata=asked["given"])
for name, threshold, how in [("perspective_diversity", 1, tiny), ("linkage", 4, {}), ("coverage", 0.1, {})]:
    metric = NfqaMetric(name, threshold=threshold, **how)
    asyncio.run(metric.a_measure(case))
    found["deepeval"][name] = [metric.score, metric.is_successful()]
metric = NfqaMetric("linkage", threshold=2)
metric.measure(LLMTestCase(input="?", actual_output=" ", metadata=asked["given"]))
found["empty"] = [math.isnan(metric.score), metric.is_successful(), metric.reason]

class Fixed(LM):
    def generate_until(self, requests, **_):
        return [asked["answer"] if request.arguments[0] == asked["question"] else "" for request in requests]
    def loglikelihood(self, *_, **__):
        raise NotImplementedError
    loglikelihood_rolling = loglikelihood

folder = Path(nfqa.frameworks.__file__).parent / "lm_eval"
given = {"questions": sys.argv[3]} | tiny
tasks = TaskManager(include_path=str(folder), include_defaults=False, metadata=given)
done = lm_eval.simple_evaluate(model=Fixed(), tasks=["nfqa_debatable"], task_manager=tasks)
found["harness"] = done["results"]["nfqa_debatable"]
from nfqa.frameworks.lm_eval.measures import load_questions
for wrong in ({}, {"questions": sys.argv[4]}):
    try:
        load_questions(**wrong)
    except ValueError as error:
        found.setdefault("refused", []).append(str(error))
print(json.dumps(found, default=str))
"""


@pytest.mark.slow
@pytest.mark.monthly
def test_scores_are_those_of_the_library(tmp_path: Path, folders: dict[str, Path]) -> None:
    tiny = f"path:{folders['gpt2']}"
    uv = Path(sys.executable).with_name("uv")
    pip = (
        [str(uv), "pip", "install", "--python", sys.executable]
        if uv.exists()
        else [sys.executable, "-m", "pip", "install"]
    )
    folder = tmp_path / "site-packages"  # by this name dill knows what not to pickle
    needed = ["--quiet", "--target", str(folder), "-r", str(PROJECT / "requirements-frameworks.txt")]
    subprocess.run([*pip, *needed], check=True)
    for name in ("torch", "transformers", "sentence_transformers", "huggingface_hub"):
        for installed in folder.glob(f"{name}*"):
            shutil.rmtree(installed)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(PROJECT / "src")])}
    environment |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_DISABLE_DOTENV": "1", "HF_HUB_OFFLINE": "1"}
    line, questions = {"question": ASKED["question"]} | GIVEN, tmp_path / "questions.jsonl"
    views = [{"point_of_view": view, "explanation": ""} for view in GIVEN["partial_answers"]]
    asked = [{"id": name, "question": name, "partial_answers": views} for name in (ASKED["question"], "Why not?")]
    questions.write_text("".join(f"{json.dumps(one)}\n" for one in asked))
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(f"{json.dumps(asked[0])}\n{json.dumps(asked[1] | {'partial_answers': None})}\n")
    run = [sys.executable, "-c", RUN, json.dumps(ASKED), str(tmp_path / "logs"), str(questions), str(wrong), tiny]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    line["answers"] = [ASKED["answer"]]
    diversity = nfqa.perspective_diversity([line], tiny).score.item()
    rank, aware = nfqa.linkage([line])["rank"].item(), nfqa.dispute_awareness([line]).score.item()
    covered = nfqa.coverage([line]).score.mean()
    expected = {
        "perspective_diversity": diversity,
        "dispute_awareness": aware,
        "linkage_rank": rank,
        "coverage": covered,
    }
    assert found["inspect"] == pytest.approx(expected, rel=1e-5)
    assert found["deepeval"] == {
        "perspective_diversity": [pytest.approx(diversity, rel=1e-5), False],
        "linkage": [rank, True],
        "coverage": [pytest.approx(covered, rel=1e-5), True],
    }
    assert found["empty"] == [True, False, "empty answer"]
    assert found["harness"]["perspective_diversity,none"] == pytest.approx(diversity, rel=1e-5)
    assert found["harness"]["coverage,none"] == pytest.approx(covered, rel=1e-5)
    assert found["harness"]["dispute_awareness,none"] == aware
    assert "--metadata" in found["refused"][0]
    assert "wrong.jsonl, line 2: partial_answers" in found["refused"][1]


def test_what_is_not_given_is_named() -> None:
    with pytest.raises(ValueError, match="references"):
        score_answer("linkage", "Why?", "So.", {})
