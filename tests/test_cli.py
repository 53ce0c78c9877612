"""Wrong input at the door: one line that says what is wrong and what is known, and exit code 2."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PROJECT, Checkout, copy_project
from tqdm import tqdm

from nfqa.judge.asking import Tally
from nfqa.opening import show_bar
from reproduction.keys import Record as RunRecord
from reproduction.keys import choose_parameters, explain_staleness
from reproduction.options import RunOptions
from reproduction.papers import read_papers
from reproduction.place import find_place


@pytest.mark.parametrize(
    ("command", "variables", "words"),
    [
        ("run made_up/frist", {}, "unknown artefact 'made_up/frist'; did you mean made_up/first"),
        ("run made_up/nope", {}, "unknown artefact 'made_up/nope'; expected PAPER/NAME"),
        ("run made_up/fourth", {}, "made_up/fourth has no notebook"),
        ("reproduce", {"PROFILE": "fast"}, "PROFILE is 'fast'; expected full or quick"),
        ("claims", {"PAPER": "made", "DATA": "full"}, "PAPER is 'made'; did you mean made_up? expected made_up"),
        ("reproduce", {"SEEDS": "0"}, "SEEDS is '0'; expected a whole number"),
        ("status", {"NFQA_MAX_REQUESTS": "9" * 5000}, "MAX_REQUESTS is '999"),
        ("status", {"NFQA_MAX_COST": "1e308", "NFQA_PRICE_IN": "1", "NFQA_PRICE_OUT": "1"}, "MAX_COST is '1e308'"),
        ("reproduce", {"NFQA_MAX_COST": "2"}, "MAX_COST=2 needs NFQA_PRICE_IN"),
        ("reproduce", {"NFQA_MAX_TOKENS": "4096"}, "MAX_TOKENS has no effect without JUDGE; unset it"),
        ("status", {"NFQA_MAX_TOKENS": "0"}, "NFQA_MAX_TOKENS is '0'; input should be greater"),
        ("reproduce", {"EMBEDDER": "minilm"}, "role embedder is 'minilm'; expected KIND:NAME, as package:"),
        ("reproduce", {"EMBEDDER": "path:/no/such"}, "/no/such is not a folder with a model"),
        ("reproduce", {"JUDGE": "gpt"}, "role judge is 'gpt'; expected KIND:NAME, as package:"),
        ("reproduce", {"JUDGE": "embedded:zero_shot"}, "for the embedded judge alone, expected embedded:trained"),
        ("reproduce", {"EVALUATOR": "hf:gpt2"}, "EVALUATOR is set, but no notebook of this run takes it"),
        ("reproduce", {"PARAMS": "value=2"}, "PARAMS needs one artefact"),
        ("run made_up/first", {"PARAMS": "valeu=2"}, "no parameter 'valeu'; did you mean value? known: artefact"),
        ("run made_up/first", {"PARAMS": "value"}, "PARAMS has 'value'; expected NAME=VALUE"),
        ("run made_up/first", {"PARAMS": "value=high"}, "found 'high'; input should be a valid number"),
        ("run made_up/first", {"PARAMS": "out=/elsewhere"}, "PARAMS has out, which the runner sets"),
        ("run made_up/first", {"PARAMS": "value='2"}, "no closing quotation"),
        ("run made_up/first", {"PARAMS": "value=1e999"}, "value, by default 1.0: found "),
    ],
)
def test_wrong_input_is_refused(checkout: Checkout, command: str, variables: dict[str, str], words: str) -> None:
    done = checkout.run(*command.split(), **variables)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_plan_over_released_prompts_that_can_not_be_had_says_what_to_do(tmp_path: Path) -> None:
    made = Checkout(tmp_path)
    copy_project(tmp_path, "src", "data", "papers", "notebooks", "prompts")
    variables = {"JUDGE": "openai:m@http://127.0.0.1:9/v1", "PROMPTS": "upstream", "NFQA_MIRROR": "/nowhere"}
    done = made.run("status", "linkage/table_05", DATA="sample", PROFILE="quick", **variables)
    assert done.returncode == 2
    assert "NFQA_MIRROR has no /nowhere" in done.stderr


def test_status_says_what_a_run_would_ask(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = checkout.root / "papers" / "made_up.yml"
    papers.write_text(papers.read_text().replace("made_up/third.ipynb,", "made_up/third.ipynb, takes: [judge],"))
    checkout.edit_notebook("made_up/third.ipynb", ["judge = ''"])
    copy_project(checkout.root, "prompts")
    monkeypatch.setattr("reproduction.plan.count_asked", lambda *_: Tally(verdicts=71, cached=68, requests=3))
    done = checkout.run("status", "made_up/third", JUDGE="openai:m@http://127.0.0.1:9/v1")
    line = "made_up/third            71 verdicts needed, 68 in the journal, 3 to ask: about 0.0 M tokens in"
    assert done.stdout.splitlines()[-1] == line


def test_a_parameter_that_is_not_utf_8_is_refused(checkout: Checkout) -> None:
    checkout.edit_notebook("made_up/first.ipynb", ["short = ''"])
    done = checkout.run("run", "made_up/first", PARAMS="short=\udcff")
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(r"\\udcff.* is not UTF-8", done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"null", b"\xff", b'{"parts": {}, "outputs": {}, "minutes": NaN}'])
def test_a_run_record_of_another_shape_counts_as_none(checkout: Checkout, content: bytes) -> None:
    path = checkout.root / "build" / "sample" / "runs" / "made_up" / "first.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    done = checkout.run("status", "made_up/first")
    assert (done.returncode, done.stderr) == (0, "")
    assert "made_up/first            not run here  (about 0.1 min)" in done.stdout


def test_outside_a_checkout_it_says_so(checkout: Checkout) -> None:
    done = checkout.run("status", NFQA_ROOT=str(checkout.root / "src"))
    assert done.returncode == 2
    assert "no data/registry.yml in" in done.stderr


@pytest.mark.slow
def test_without_network_or_mirror_the_sample_runs_and_says_how_to_get_the_data(checkout: Checkout) -> None:
    done = checkout.run("reproduce", DATA="full", NFQA_MIRROR=str(checkout.root / "nowhere"))
    assert done.returncode == 0, done.stderr
    assert "NFQA_MIRROR has no" in done.stdout
    assert "Running on the small bundled SAMPLE instead" in done.stdout
    assert (checkout.root / "build" / "sample" / "results" / "made_up" / "first.csv").is_file()
    assert not (checkout.root / "results" / "made_up").exists()


def test_check_fails_on_a_difference_without_a_reason_and_not_with_one(checkout: Checkout) -> None:
    path = checkout.root / "results" / "made_up" / "first.csv"
    path.parent.mkdir(parents=True)
    header = "dataset,metric,statistic,value,low,high,spread,n,dropped,resampled,dropped_because,origin,signature\n"

    def check(value: str) -> tuple[int, str]:
        path.write_text(f"{header}antique,ours,number,{value},,,,,,,,measured,s\n")
        done = checkout.run("check", DATA="full")
        return done.returncode, done.stdout

    assert check("1.004")[0] == 0
    code, output = check("1.5")
    assert (code, "differs: +0.5000, no reason listed" in output) == (1, True)
    papers = checkout.root / "papers" / "made_up.csv"
    papers.write_text(papers.read_text().replace("table,,", "table,known,Measured here: 1.5000. Another draw."))
    code, output = check("1.5")
    assert (code, "differs, explained: Measured here: 1.5000. Another draw." in output) == (0, True)
    code, output = check("")
    assert (code, "missing: run `make reproduce`" in output) == (1, True)
    papers.write_text(f"{papers.read_text()}first,Other,,antique,other,number,2.00,,0.01,,,table,,\n")
    assert "missing" in check("1.004")[1].splitlines()[0], "what fails comes first"
    path.write_text("half a fi")
    assert "not a values file" in checkout.run("check", DATA="full").stderr


@pytest.mark.parametrize(
    ("missing", "asked_again"),
    [
        ({}, 0),
        ({"unreadable": 4, "too_long": 1, "refused": 2}, 0),  # of the prompt or the model: the same again
        ({"timeout": 1, "bad_reply": 2}, 3),
    ],
)
def test_verdicts_that_a_server_did_not_give_leave_an_artefact_stale(
    tmp_path: Path, missing: dict[str, int], asked_again: int
) -> None:
    record = RunRecord(parts={"notebook": "1"}, outputs={}, missing=missing, minutes=1)
    message = explain_staleness(record, {"notebook": "1"}, find_place(tmp_path))
    assert message == ([f"{asked_again} verdicts failed; run again to request them once more"] if asked_again else [])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (RunOptions(), ""),
        (RunOptions(profile="quick", given={"n_seeds": 3}, parameters={"short": "é"}), "quick-n_seeds-3-short-"),
        (RunOptions(given={"judge": "openai:gpt-4o@http://h:1/v1", "reading": "logits"}),
         "judge-gpt-4o-reading-logits-"),
        (RunOptions(parameters={"answers": "/a/../my file\x00\n.txt", "short": "é"}), "answers-my_file_.txt-short-"),
        (RunOptions(settings={"max_tokens": 4096}), "max_tokens-4096-"),
        (RunOptions(parameters={f"name_{n}": "x" * 500 for n in range(9)}), "name_0-xxxxxxxx"),
    ],
)  # fmt: skip
def test_a_variant_s_folder_says_what_was_set_in_few_safe_characters(options: RunOptions, name: str) -> None:
    assert options.variant.startswith(name)
    assert len(options.variant) < 100
    assert re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*-[0-9a-f]{8})?", options.variant)
    values = ("é", "è", "x" * 500, "x" * 501, "a/b", "b", "1", 1)  # that look alike in few characters
    assert len({replace(options, parameters={"short": value}).variant for value in values}) == len(values)


@pytest.mark.parametrize(
    ("identifier", "options", "size"),
    [
        ("linkage/table_02", RunOptions(profile="quick"), "quick: 8 questions, 2 draws"),
        ("linkage/table_02", RunOptions(profile="quick", parameters={"limit": None}), "quick: 2 draws"),
        ("linkage/table_02", RunOptions(given={"n_seeds": 2}, parameters={"limit": 8}), ""),
        ("debateqa/sensitivity", RunOptions(profile="quick"), "quick: 4 questions"),  # an evaluator reads every answer
        ("linkage/figure_02", RunOptions(profile="quick"), "quick"),
    ],
)  # fmt: skip
def test_a_quick_run_says_with_how_much_each_artefact_is_made(identifier: str, options: RunOptions, size: str) -> None:
    paper, _, name = identifier.partition("/")
    entry = read_papers(PROJECT)[paper]
    assert options.say_size(choose_parameters(entry, name, options, Path())) == size


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_seeds": -3}, "n_seeds, by default 10: found -3; input should be greater than or equal to 1"),
        ({"limit": 1.5}, "limit, by default None: found 1.5; input should be a valid integer"),
        ({"limit": 0}, "limit, by default None: found 0; input should be greater than or equal to 1"),
    ],
)
def test_a_count_that_is_none_is_refused_before_anything_is_asked(parameters: dict[str, float], words: str) -> None:
    paper = read_papers(PROJECT)["linkage"]
    with pytest.raises(ValueError, match=words):
        choose_parameters(paper, "table_02", RunOptions(parameters=parameters), Path())


def test_a_bar_is_drawn_of_each_batch_or_of_none(capsys, monkeypatch) -> None:
    monkeypatch.setattr("tqdm.tqdm", lambda **how: tqdm(**how | {"delay": 0}))
    for visible in (True, False):
        show = show_bar(" verdicts", shown=visible)
        for done, total in ((0, 4), (2, 4), (4, 4), (0, 3), (3, 3)):
            show(done, total)
        drawn = capsys.readouterr().err
        assert ("4/4" in drawn, "3/3" in drawn, " verdicts/s" in drawn) == (visible,) * 3
