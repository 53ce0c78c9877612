"""What a language model gave, in git: it is found where the same is asked, never counted as one's own, and checked."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from conftest import Checkout, copy_project
from notebook_cells import run_here
from pyarrow import parquet
from tiny_models import SENTENCES

from nfqa.judge.committed_verdicts import VERDICTS
from nfqa.judge.journal import WITHOUT, Entry, Journal, hash_text
from nfqa.kernels.parse import Verdict
from nfqa.kernels.perplexity import PAPER, RELEASED
from nfqa.models import evaluator
from nfqa.models.chat import Reply
from nfqa.models.committed_losses import LOSSES
from nfqa.models.evaluator import Evaluator
from nfqa.models.pretrained import Pretrained
from nfqa.models.restated import Restated
from nfqa.models.roles import parse_role
from reproduction import runner
from reproduction.judging import open_journal
from reproduction.place import find_cache
from tools.verdicts import list_losses, main, merge_rows, write_rows

MODEL, SPEC = "gguf:m@0|float32", "gguf:m@0"
ENTRY = Entry(hash_text("prompt"), MODEL, "chat:1", "logits|chat", 0, ("1", "2", "é"))
REPLY = Reply("[[1]]", 455, 0, "logits", 0.25, (-0.105361, -2.30259, -math.inf))

ITEMS = (
    Restated(SENTENCES[0], (SENTENCES[1], "salt", "The sea.")),
    Restated(SENTENCES[3], (SENTENCES[4], "Nobody knows.")),
)


def make_entry(number: int) -> Entry:
    return replace(ENTRY, prompt=hash_text(f"prompt {number}"))


def fill(journal: Journal, count: int = 3, spec: str = SPEC, **changes: object) -> Journal:
    """Readings of rising numbers of prompts."""
    for number in range(count):
        journal.keep(replace(make_entry(number), **changes), REPLY, Verdict(1.25), spec=spec)
    return journal


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout's folder with three committed verdicts."""
    monkeypatch.delenv("NFQA_JOURNAL", raising=False)
    (tmp_path / "data").mkdir()
    write_verdicts(fill(Journal()), tmp_path / "data" / "verdicts" / "m.parquet")
    return tmp_path


def find_file(root: Path) -> Path:
    return root / "data" / "verdicts" / "m.parquet"


def write_verdicts(journal: Journal, path: Path) -> str:
    return merge_rows(VERDICTS, path, journal.list_lines())


def read_rows(path: Path) -> list[dict]:
    return parquet.read_table(path).to_pylist()


def alter(path: Path, change: Callable[[list[dict]], list[dict]]) -> None:
    """Rewrite a file's rows."""
    write_rows(VERDICTS, path, change(read_rows(path)))


def test_committed_verdicts_are_found_but_are_nobody_s_own(root):
    journal = open_journal(root)
    assert journal.find(make_entry(2)) == replace(REPLY, seconds=0.0)
    assert journal.find(make_entry(3)) is None
    assert journal.find_models(SPEC) == [(MODEL, "chat:1")]
    assert journal.find_decodings(SPEC, "logits|chat") == ["logits|chat"]
    assert (journal.count(), journal.list_lines(), journal.count_run("committed")) == ([], [], (0, 0, 0))
    assert open_journal(root).find(make_entry(0))  # from the copy that was made
    write_verdicts(fill(Journal(), 4), find_file(root))
    assert open_journal(root).find(make_entry(3)), "a file that changes is read anew"


def test_a_user_s_own_verdict_and_model_come_first(root):
    journal = open_journal(root)
    reply = replace(REPLY, text="[[2]]")
    assert journal.keep(ENTRY, reply, Verdict(2.0), spec=SPEC) == reply
    journal.keep(make_entry(0), reply, Verdict(2.0), spec=SPEC)
    assert journal.find(make_entry(0)) == reply
    journal.keep(replace(ENTRY, model="gguf:m@0|bfloat16"), reply, Verdict(2.0), spec=SPEC)
    journal.keep(replace(ENTRY, decoding=f"logits|chat{WITHOUT}top_p"), reply, Verdict(2.0), spec=SPEC)
    assert [model for model, _ in journal.find_models(SPEC)] == [MODEL, "gguf:m@0|bfloat16"]
    assert journal.find_decodings(SPEC, "logits|chat") == ["logits|chat", f"logits|chat{WITHOUT}top_p"]


def test_fresh_runs_find_nothing_committed(root, monkeypatch):
    monkeypatch.setenv("FRESH", "1")
    assert open_journal(root).find(make_entry(0)) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [("bit", "damaged"), ("columns", "its columns are")],
)
def test_a_file_that_is_no_file_of_verdicts_is_refused_each_time(root, content, message):
    path = find_file(root)
    before = path.read_bytes()
    if content == "columns":
        pd.DataFrame({"prompt": ["p"]}).to_parquet(path)
    else:
        path.write_bytes(before[:60] + bytes([before[60] ^ 1]) + before[61:])
    altered = path.read_bytes()
    for use in (open_journal, open_journal, lambda _: write_verdicts(fill(Journal()), path)):
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{message}.*git checkout"):
            use(root)
    assert path.read_bytes() == altered


TEXT = replace(make_entry(9), decoding="text|chat|t0|p1|max512")


def test_an_export_adds_to_a_file_and_replaces_nothing(root):
    path = find_file(root)
    before = path.read_bytes()
    assert write_verdicts(fill(Journal(), 2), path) == f"3 rows in {path}, 0 of them new"
    assert path.read_bytes() == before
    other, changed = fill(Journal(), 5), Journal()
    other.keep(TEXT, replace(REPLY, text="so", logprobs=None), Verdict(None, "unreadable"), spec=SPEC)
    changed.keep(make_entry(0), replace(REPLY, logprobs=(-1.0, -2.0, -3.0)), Verdict(1.0), spec=SPEC)
    assert write_verdicts(other, path) == f"6 rows in {path}, 3 of them new"
    assert write_verdicts(changed, path).startswith(f"6 rows in {path}, 0 of them new; 1 stayed as they were")
    journal = open_journal(root)
    assert journal.find(make_entry(0)).logprobs == REPLY.logprobs
    assert (journal.find(TEXT).text, journal.find(TEXT).logprobs) == ("so", None)


def test_the_commands_write_such_a_file_and_tell_what_is_committed(checkout: Checkout):
    journal = fill(Journal(checkout.root / "verdicts" / "journal.sqlite"))
    fill(journal, model="openai:x", spec="openai:x")
    path = checkout.root / "data" / "verdicts" / "m.parquet"
    done = checkout.run("export", str(path), "--model", SPEC, call=main)
    assert (done.returncode, done.stdout) == (0, f"3 rows in {path}, 3 of them new\n"), done.stderr
    for words, message in (("export README.md", "FILE is README.md; expected a name that ends in"),
                           (f"import {checkout.root}/papers/made_up.csv", "made_up.csv: no journal")):  # fmt: skip
        refused = checkout.run(*words.split(), call=main)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    alter(path, lambda rows: [rows[0] | {"text": "so"}, *rows[1:]])
    for where, words in ((journal.path, "0 new completions imported; 1 stayed as they were, which differ\n"),
                         (checkout.root / "other.sqlite", "3 new completions imported\n")):  # fmt: skip
        done = checkout.run("import", str(path), call=main, NFQA_JOURNAL=str(where))
        assert (done.returncode, done.stdout) == (0, words), done.stderr
    assert "so" not in {line["text"] for line in journal.list_lines()}
    assert "committed: data/verdicts/m.parquet" in checkout.run("status", "made_up/first").stdout
    assert "committed" not in checkout.run("status", "made_up/first", FRESH="1").stdout


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def open_tiny(folders: dict[str, Path], tmp_path: Path) -> Callable[..., Evaluator]:
    """Opens a language model as evaluator, with a store of losses and a committed file."""

    def open_it(store: str = "losses", **options: object) -> Evaluator:
        files = [path] if (path := tmp_path / "committed.parquet").is_file() else []
        spec = parse_role("evaluator", f"path:{folders['llama']}")
        return Evaluator(spec, device="cpu", store=tmp_path / f"{store}.sqlite", committed=files, **options)

    return open_it


def commit(folder: Path, store: str = "losses") -> str:
    return merge_rows(LOSSES, folder / "committed.parquet", list_losses(folder / f"{store}.sqlite"))


@pytest.mark.parametrize("way", [PAPER, RELEASED])
def test_committed_losses_stand_in_for_the_model_whatever_the_code(open_tiny, tmp_path, monkeypatch, one_thread, way):
    made = open_tiny().score(ITEMS, way)
    assert commit(tmp_path) == f"5 rows in {tmp_path}/committed.parquet, 5 of them new"
    monkeypatch.setattr(evaluator, "hash_losses_code", lambda: "another")
    monkeypatch.setattr(Pretrained, "engine", property(lambda _: pytest.fail("the model was run")))
    read = open_tiny("elsewhere")
    assert read.score(ITEMS, way) == made
    assert read.find_committed(ITEMS[0], ITEMS[0].targets[1], way) == made[0][1]
    assert read.find_committed(ITEMS[0], "never scored", way) is None
    with pytest.raises(ValueError, match="nothing to write"):
        commit(tmp_path, "elsewhere")  # what was read was not made
    monkeypatch.setattr(Pretrained, "template", property(lambda _: pytest.fail("the model was looked for")))
    assert open_tiny("elsewhere").score(ITEMS, way) == made


def test_one_s_own_losses_come_before_committed_ones_and_are_never_written_over_them(open_tiny, tmp_path, one_thread):
    made = open_tiny().score(ITEMS, PAPER)
    commit(tmp_path)
    path = tmp_path / "committed.parquet"
    rows = read_rows(path)
    write_rows(LOSSES, path, [row | {"nats": 1.0} for row in rows])
    assert open_tiny().score(ITEMS, PAPER) == made
    assert {loss.nats for row in open_tiny("elsewhere").score(ITEMS, PAPER) for loss in row} == {1.0}
    assert commit(tmp_path).endswith("0 of them new; 5 stayed as they were, which differ")


# The spot check -------------------------------------------------------------------------------------------------------

CELLS = [
    "artefact = 'made_up/first'\ndata = 'full'\nout = ''\njudge = ''\ngenerator = ''\nevaluator = ''\n"
    "reading = 'text'\ndecoding = 'paper'\nprompts = 'own'",
    "from nfqa.kernels.perplexity import PAPER\nfrom reproduction.open import open_lab\n"
    "from nfqa.metrics.judging import judge_by_language_model\n"
    "from nfqa.models.restated import Restated\nfrom reproduction.studies.drawing import draw_references\n"
    "given = dict(judge=judge, generator=generator, evaluator=evaluator, reading=reading, decoding=decoding)\n"
    "lab = open_lab(artefact, data=data, out=out, prompts=prompts, **given)",
    "questions = lab.load('antique', limit=2)\n"
    "asked = judge_by_language_model(draw_references([questions], seeds=[0]), lab.judge, 'listwise')\n"
    "texts = [writer.write(['Why is the sea salty?', 'Who knows?']) for writer in lab.generators]",
    "items = [Restated(answer.text, (one.text,)) for one in questions.questions for answer in one.answers]",
    "losses = lab.evaluator.score(items, PAPER)\nassert losses[0][0].reason == ''\nlab.embedder.tune('')",
    "import pandas as pd\nrow = {'dataset': 'd', 'metric': 'ours', 'statistic': 'number', 'value': 1.0}\n"
    "lab.write(lab.tidy(pd.DataFrame([row])))",
]


@pytest.fixture
def judged(checkout: Checkout, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout whose committed verdicts, texts and losses are those of a tiny model; no journal and no store."""
    copy_project(checkout.root, "prompts")
    checkout.edit_notebook("made_up/first.ipynb", CELLS)
    path = checkout.root / "notebooks" / "made_up" / "first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].metadata["tags"], notebook.cells[2].metadata["tags"] = ["setup"], ["ask"]
    nbformat.write(notebook, path)
    roles = dict.fromkeys(("JUDGE", "GENERATOR", "EVALUATOR"), f"path:{folders['llama']}")
    checkout.environment |= roles | {"READING": "logits", "DECODING": "greedy", "PROMPTS": "own"}
    monkeypatch.setattr(runner, "execute_notebook", run_here)
    done = checkout.run("run", "made_up/first")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("export data/verdicts/m.parquet", "export-losses data/losses/m.parquet"):
        done = checkout.run(*words.split(), call=main)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(checkout.root / "verdicts")
    find_cache(checkout.root, "losses").unlink()
    return checkout


def change_rows(root: Path, what: str, change: Callable[[dict], dict]) -> None:
    """Change the rows of a kind of file."""
    form, path = {"verdicts": VERDICTS, "losses": LOSSES}[what], root / "data" / what / "m.parquet"
    write_rows(form, path, [change(row) for row in read_rows(path)])


@pytest.mark.slow
def test_a_spot_check_finds_what_the_model_does_not_give(judged, one_thread):
    def check(code: int) -> str:
        done = judged.run("spot-check", call=main, N="12", SEED="7")
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    output = check(0)
    assert "SEED=7: drawn from made_up/first\n" in output
    assert [int(count) for count in re.findall(r", (\d+) differ; ", output)] == [0, 0, 0]
    change_rows(judged.root, "verdicts", lambda row: row | {"text": row["text"] + "!"})
    change_rows(judged.root, "losses", lambda row: row | {"nats": row["nats"] * 1.002})
    change_rows(
        judged.root,
        "verdicts",
        lambda row: row | {"logprobs": row["logprobs"] and [row["logprobs"][0] - 0.002, *row["logprobs"][1:]]},
    )
    output = check(1)
    assert "largest difference 0.002, at most 0.001" in output
    found = {kind: (made, wrong) for made, kind, wrong in re.findall(r": (\d+) ([\w-]+), (\d+) differ; ", output)}
    assert found.keys() == {"log-probabilities", "texts", "losses"}
    assert all(made == wrong for made, wrong in found.values())
