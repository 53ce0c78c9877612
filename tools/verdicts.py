"""What language models gave, for git: export, import and spot check; `make help` lists the commands.

What a file or a journal holds already is never replaced. The library reads the Parquet files (`nfqa.files.committed`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet

from nfqa.files.committed import RowFormat
from nfqa.files.paths import find_root, write_atomically
from nfqa.judge.asking import Asker, scatter_seed
from nfqa.judge.committed_verdicts import VERDICTS, read_verdicts
from nfqa.judge.journal import Entry, Journal, find_key
from nfqa.kernels.perplexity import Settings
from nfqa.models.chat import Reply, Request
from nfqa.models.committed_losses import LOSSES, open_losses
from nfqa.models.evaluator import Evaluator, hash_losses_code
from nfqa.models.gguf import find_in_folder
from nfqa.models.reader import READINGS, Reader
from nfqa.models.restated import Restated, TargetLoss
from nfqa.models.roles import COMMITTED, SMOLLM2, parse_role
from nfqa.opening import open_model
from reproduction.data.registry import UnreachableError
from reproduction.judging import find_journal, open_committed_journal
from reproduction.options import read_count, read_options
from reproduction.papers import list_chosen
from reproduction.place import find_cache
from reproduction.replay import count_asked

# Export and import ----------------------------------------------------------------------------------------------------


def merge_rows(form: RowFormat, path: Path, rows: list[dict]) -> str:
    """Write rows beside those of a Parquet file, which stay as they are, by key. Returns: what became of it."""
    if path.suffix != ".parquet":
        raise ValueError(f"FILE is {path}; expected a name that ends in .parquet")
    if not rows:
        raise ValueError(f"there is nothing to write to {path}")
    kept = form.read([path] if path.is_file() else [])
    new = {form.find_key(row): row for row in rows}
    stayed, merged = compare_rows(form, kept, new), new | kept
    write_rows(form, path, [merged[key] for key in sorted(merged)])
    return f"{len(merged):,} rows in {path}, {len(merged) - len(kept):,} of them new{stayed}"


def write_rows(form: RowFormat, path: Path, rows: list[dict]) -> None:
    """A Parquet file of a form's columns."""
    table = pyarrow.Table.from_pylist(rows, form.schema)
    with write_atomically(path) as scratch:
        parquet.write_table(table, scratch, compression="zstd", compression_level=19, write_page_checksum=True)


def compare_rows(form: RowFormat, kept: dict, new: dict) -> str:
    """How many kept rows differ from new ones, in words."""
    shared = kept.keys() & new.keys()
    differing = sum(any(kept[key][name] != new[key][name] for name in form.columns) for key in shared)
    return f"; {differing:,} stayed as they were, which differ" if differing else ""


def list_losses(store: Path) -> list[dict]:
    """A store's losses by language models, of those that the present code made."""
    columns = ", ".join([*LOSSES.columns][1:])
    query = f"SELECT lasting, {columns} FROM {{table}} WHERE made_by = ?"  # noqa: S608
    rows = open_losses(store).select(query, [hash_losses_code()])
    return [dict(zip(LOSSES.columns, row, strict=True)) for row in rows]


def import_completions(journal: Journal, path: Path) -> str:
    """Take in another journal or a Parquet file of verdicts, all of it or nothing; what the journal has stays."""
    lines = read_verdicts([path]) if path.suffix == ".parquet" else read_journal(path)
    kept, new = ({line["key"]: line for line in each} for each in (journal.list_lines(), lines))
    stayed = compare_rows(VERDICTS, kept, new)
    return f"{journal.add(lines, 'imported'):,} new completions imported{stayed}"


def read_journal(path: Path) -> list[dict]:
    """The completions of another journal's file, which stays as it is. Raises: ValueError where keys don't fit rows."""
    names = ["key", "seconds", *VERDICTS.columns]
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as other:
            rows = other.execute(f"SELECT {', '.join(names)} FROM replies").fetchall()  # noqa: S608
    except sqlite3.Error as error:
        raise ValueError(f"{path}: no journal, or a damaged one ({error}); name another file") from None
    lines = [dict(zip(names, row, strict=True)) for row in rows]
    lines = [line | {name: json.loads(line[name]) for name in ("labels", "logprobs")} for line in lines]
    if altered := sum(find_key(line) != line["key"] for line in lines):
        raise ValueError(f"{path}: the keys of {altered:,} completions don't follow from their fields")
    return lines


# The spot check -------------------------------------------------------------------------------------------------------

ARTEFACTS, SECONDS = 3, 120  # a sample comes from so many, if so many have something committed; else time ends it
A_TEXT = 10  # takes a minute, where a verdict takes a second: so many times fewer are drawn
# Differences: in nats; whether any; as a share; of logits, which are rounded to 1e-3.
MOST = {"log-probabilities": 1e-3, "texts": 0.0, "losses": 1e-3, "readings": 5e-3}
MOST_BFLOAT16 = MOST | {"log-probabilities": 0.5, "losses": 0.02}  # which moves by batch and processor
open_again = cache(partial(open_model, journal=Journal()))  # each model once; what it gives is not kept


class Recorder:
    """Notes what notebooks ask for that is committed: its kind, key, model and artefact, and what computes it anew."""

    def __init__(self, root: Path, most_losses: int) -> None:
        self.place, self.most_losses = "", most_losses  # the artefact at work; how many losses end its notebook
        self.journal, self.evaluators = open_committed_journal(root) or Journal(), dict[str, Evaluator]()
        self.reader: Reader | None = None
        self.rows = list[tuple[str, str, str, str, Callable[[], tuple[float, str]]]]()

    def note_requests(self, asker: Asker, requests: Sequence[Request], entries: Sequence[Entry]) -> None:
        """Note a language model's requests."""
        for request, entry in zip(requests, entries, strict=True):
            if reply := self.journal.find(entry):
                kind = "log-probabilities" if reply.logprobs else "texts"
                again = partial(ask_again, asker, request, entry, reply)
                self.rows.append((kind, entry.key, entry.model, self.place, again))

    def note_losses(self, evaluator: Evaluator, items: Sequence[Restated], settings: Settings) -> None:
        """Note an evaluator's losses. Raises: InterruptedError where they are enough."""
        model = evaluator.identity
        opened = self.evaluators.setdefault(model, evaluator)  # one of each model
        for item in items:
            for target in item.targets:
                if loss := evaluator.find_committed(item, target, settings):
                    again = partial(score_again, opened, Restated(item.context, (target,)), settings, loss)
                    key = f"{model}|{settings.reading}|{item.context}|{target}"
                    self.rows.append(("losses", key, model, self.place, again))
        if sum(kind == "losses" for kind, *_ in self.rows) >= self.most_losses:
            raise InterruptedError("enough losses")

    def note_readings(self, reader: Reader, pairs: Sequence[tuple[str, str]]) -> None:
        """Note what SmolLM2's reader read."""
        self.reader = self.reader or reader  # one for all artefacts
        for pair in pairs:
            before = self.reader.find_committed(pair)
            if before:
                key = "|".join([reader.signature, *pair])
                again = partial(read_again, self.reader, pair, before)
                self.rows.append(("readings", key, reader.signature, self.place, again))

    def make_table(self) -> pd.DataFrame:
        """What was noted, each request once."""
        return pd.DataFrame(self.rows, columns=["kind", "key", "model", "place", "again"]).drop_duplicates("key")


def ask_again(asker: Asker, request: Request, entry: Entry, before: Reply) -> tuple[float, str]:
    """By how much a new completion differs from the committed one, and both in words."""
    seeded = replace(request, seed=scatter_seed(entry.seed, entry.prompt))
    ((_, reply),) = open_again(asker.spec, dtype=entry.model.rpartition("|")[2]).answer([seeded], asker.decoding)
    old, new = before.logprobs or (), getattr(reply, "logprobs", None) or ()
    difference = inf if old else float(before.text != getattr(reply, "text", None))
    if old and len(old) == len(new):  # -inf twice is no difference
        difference = float(np.max([0.0 if a == b else abs(a - b) for a, b in zip(old, new, strict=True)]))
    return difference, f"prompt {entry.prompt[:12]}: {before!s:.400} is committed, now {reply!s:.400}"


def score_again(evaluator: Evaluator, item: Restated, settings: Settings, before: TargetLoss) -> tuple[float, str]:
    """By what share a new loss differs from the committed one, and both in words."""
    now = evaluator.score_plain([item], settings)[0][0]
    is_same = replace(now, nats=before.nats) == before  # in all but nats
    difference = abs(now.nats - before.nats) / max(abs(before.nats), 1e-9) if is_same else inf
    return difference, f"restating {item.targets[0]!r:.40}: {before} is committed, now {now}"


def read_again(reader: Reader, pair: tuple[str, str], before: tuple[float, int]) -> tuple[float, str]:
    """By how much a new logit differs from the committed one, and both in words."""
    (((_, logit, cut),),) = reader.read_anew([pair])
    difference = abs(logit - before[0]) if cut == before[1] else inf
    return difference, f"reading {pair[1]!r:.40}: {before} is committed, now {(logit, int(cut))}"


def draw_sample(root: Path, only: Sequence[str], size: int, seed: int) -> pd.DataFrame:
    """Of what notebooks ask for, a random `size` of each kind that is committed, of texts fewer: rows to compute.

    Artefacts come in random order, each with all its requests and the losses of what it scores first. Without roles,
    SmolLM2 fills all, and so do the committed models whose files are in the folder $NFQA_MODELS.
    """
    options, names = read_options(root, only), ("judge", "generator", "evaluator")
    if not options.roles:
        here = [spec for spec in COMMITTED if spec == SMOLLM2 or find_in_folder(parse_role("judge", spec))]
        asking = {"reading": "logits", "decoding": "greedy"}
        options = replace(options, given=dict.fromkeys(names, ",".join(here)) | asking)
    recorder, end = Recorder(root, size), time.monotonic() + SECONDS
    artefacts = [(paper, name) for paper, name in list_chosen(root, only) if {*names} & {*paper.artefacts[name].roles}]
    for paper, name in random.Random(seed).sample(artefacts, len(artefacts)):
        enough = recorder.make_table().groupby("kind").place.agg(["size", "nunique"]).ge([size, ARTEFACTS]).all(axis=1)
        if recorder.rows and ({"log-probabilities", "losses"} <= {*enough[enough].index} or time.monotonic() > end):
            break
        recorder.place = f"{paper.paper}/{name}"
        count_asked(paper, name, options.find_place(root), options, recorder)
    table = recorder.make_table().sample(frac=1, random_state=seed)
    most = table.kind.map({"log-probabilities": size, "texts": -(-size // A_TEXT), "losses": size, "readings": size})
    return table[table.groupby("kind").cumcount() < most]


def spot_check(root: Path, only: Sequence[str]) -> int:
    """Compute $N random verdicts, losses and readings anew, and fewer texts; $SEED repeats an earlier sample.

    Returns: 0 where log-probabilities, losses and readings differ by `MOST` or less from the committed ones, and more
        than half of the texts are the same: a few may differ on another processor; else 1.
    """
    size = read_count("N", "how many to compute again") or 100
    seed = read_count("SEED", "the seed of an earlier spot check") or random.randrange(1, 10**6)
    table, is_well = draw_sample(root, only, size, seed), True
    if table.empty:
        raise ValueError(
            "nothing under data/verdicts or data/losses or data/readings is asked for here; unset FRESH and ONLY"
        )
    print(f"SEED={seed}: drawn from {', '.join(sorted({*table.place}))}", flush=True)
    table["difference"], table["words"] = zip(*(again() for again in table.again), strict=True)
    for (kind, model), part in table.groupby(["kind", "model"]):
        allowed = (MOST_BFLOAT16 if "|bfloat16" in model else MOST)[kind]
        wrong = part[~(part.difference <= allowed)]
        line = f"{model}: {len(part)} {kind}, {len(wrong)} differ; largest difference {part.difference.max():.2g}"
        print(f"{line}, at most {allowed:g}", *wrong.place + ", " + wrong.words, sep="\n  ")
        is_well &= 2 * len(wrong) < len(part) if kind == "texts" else wrong.empty
    if not is_well:
        print("`git checkout -- data` restores committed files; else the code or a package changed the model's output")
    return int(not is_well)


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code, which is 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m tools.verdicts", description=str(__doc__).partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("export", "export-losses", "export-readings", "import"):
        commands.add_parser(name).add_argument("file", type=Path)
    commands.choices["export"].add_argument("--model", default="", help="beginning of the models' identity")
    commands.add_parser("spot-check").add_argument("artefacts", nargs="*", metavar="PAPER/NAME")
    chosen = parser.parse_args(words)
    try:
        root = find_root()
        os.environ.setdefault("NFQA_CACHE", str(root / "build" / "cache"))  # of the library, which knows no checkout
        if chosen.command == "spot-check":
            return spot_check(root, chosen.artefacts)
        journal = find_journal(root)
        if chosen.command == "import":
            print(import_completions(Journal(journal), chosen.file))
        elif chosen.command == "export-losses":
            print(merge_rows(LOSSES, chosen.file, list_losses(find_cache(root, "losses"))))
        elif chosen.command == "export-readings":
            print(merge_rows(READINGS, chosen.file, Reader(find_cache(root, "readings")).list_kept()))
        else:
            lines = Journal(journal).list_lines() if journal.is_file() else []
            rows = [line for line in lines if line["model"].startswith(chosen.model)]
            print(merge_rows(VERDICTS, chosen.file, rows))
    except (OSError, ValueError, UnreachableError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
