"""A soak test: a faulty server on loopback, runs killed at random moments, the journal held against the server's log.

`make soak`, or `python tests/soak.py --calls 10000 --kills 100`. It ends with 1 where a promise of docs/reliability.md
is broken. Two processes always ask through one journal; the one that is killed is drawn by chance.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from judged_run import CONCURRENCY, judge_sample
from notebook_cells import RuleModel
from stub_server import ODD, RETRIED, Sent, StubServer, hash_request, reply_to
from tqdm import tqdm

from nfqa.judge.asking import Asker, scatter_seed
from nfqa.judge.journal import Journal, hash_text
from nfqa.models.chat import PASSING as PASSES
from nfqa.models.chat import Decoding, Request
from nfqa.models.roles import parse_role

SCRIPT = Path(__file__).with_name("judged_run.py")
FAULTS, SHARE = (*RETRIED, "plain_text"), 0.125  # one attempt in eight
STRANGE = (*(4 * FAULTS), *ODD, "hang")  # few of those that cost a verdict, or a time-out
STUB = parse_role("judge", "openai:stub")
_ENOUGH = 3  # crashes end a storm
LATEST = 20.0  # seconds after a kill in which what is left of a run may still ask
_MARKED = re.compile(r"\[\[(\w+)\]\]")


@dataclass
class Findings:
    """What a storm came to; the last five break a promise where they are above what is allowed.

    calls: attempts that reached the server. replies: those that were answered whole, and so are paid for. in_flight:
    replies of killed runs that were not yet kept. paid_twice: replies beyond the first to one request; never more than
    in_flight. lost: replies that are nowhere in the journal, of runs that were not killed, or of a killed one beyond
    those that may be on their way. wrong: kept texts that the server never sent, verdicts that their text doesn't
    hold, cells of the final tables that differ from an undisturbed run. late: calls by what a killed run left, more
    than 20 seconds after. crashed: runs that ended otherwise than by a kill or in success.
    """

    calls: int = 0
    replies: int = 0
    kept: int = 0
    kills: int = 0
    in_flight: int = 0
    paid_twice: int = 0
    lost: int = 0
    wrong: int = 0
    late: int = 0
    crashed: int = 0

    @property
    def broken(self) -> bool:
        """Whether a promise is."""
        return self.paid_twice > self.in_flight or bool(self.lost or self.wrong or self.late or self.crashed)

    def __str__(self) -> str:
        return ", ".join(f"{each.name.replace('_', ' ')} {getattr(self, each.name):,}" for each in fields(self))


def reply_mostly(prompt: str, seed: int) -> str:
    """One in seven completions can't be read, so that a kill also falls between an answer and its next try."""
    return "I would have to think." if hash_request(prompt, seed) % 7 == 0 else reply_to(prompt, seed)


def reply_by_rule(request: Request) -> str:
    """The same, of a request."""
    return reply_mostly(request.prompt, request.seed)


def audit(sent: Iterable[Sent], journal: Path, killed: dict[str, float], *, concurrency: int) -> Findings:
    """The journal held against the server's log; `killed`: when each killed run was, by the server's clock."""
    sent = list(sent)
    texts = defaultdict(set)
    by_run: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
    count: Counter[tuple[str, str, int]] = Counter()
    result = Findings(replies=len(sent), kills=len(killed))
    for each in sent:
        key = (each.model, hash_text(each.prompt), each.seed)
        texts[key].add(each.text)
        by_run[each.run].add(key)
        count[key] += 1
        result.late += each.run in killed and each.time > killed[each.run] + LATEST
    kept_by: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT model, prompt, seed, text, verdict, run FROM replies").fetchall()
    for model, prompt, seed, text, verdict, run in rows:
        key = (model.removeprefix("openai:"), prompt, scatter_seed(seed, prompt))
        kept_by[run].add(key)
        result.wrong += text not in texts[key] or not _holds(text, verdict)
    result.kept = len(rows)
    in_journal = set().union(*kept_by.values())
    unkept = {run: keys - kept_by[run] for run, keys in by_run.items()}
    result.in_flight = sum(len(unkept[run]) for run in killed if run in unkept)
    result.paid_twice = len(sent) - len(count)
    result.lost = len(count.keys() - in_journal)
    result.lost += sum(max(0, len(keys) - (concurrency if run in killed else 0)) for run, keys in unkept.items())
    return result


def _holds(text: str, verdict: float | None) -> bool:
    marked = _MARKED.findall(text)
    if not marked or verdict is None:
        return not marked and verdict is None
    return verdict == {"A": 1.0, "B": -1.0, "C": 0.0}.get(marked[0], float(marked[0]) if marked[0].isdigit() else None)


class Storm:
    """Runs against one server and one journal, some of them killed."""

    def __init__(self, server: StubServer, folder: Path, *, seed: int) -> None:
        self.server, self.folder, self.draw = server, folder, random.Random(seed)
        self.journal = folder / "journal.sqlite"
        self.killed: dict[str, float] = {}
        self.started = self.crashed = 0
        folder.mkdir()

    def start(self, *command: str | Path, **variables: str) -> tuple[str, subprocess.Popen[bytes]]:
        """A run, known to the server by its name; with a key that occurs in verdicts, and must change none."""
        run = f"{self.folder.name}-{self.started}"
        self.started += 1
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NFQA_", "OPENAI_"))}
        environment |= {"OPENAI_API_KEY": "1", "OPENAI_CUSTOM_HEADERS": f"X-Run: {run}", "NFQA_RUN": run}
        environment |= {"PYTHONPATH": str(SCRIPT.parents[1] / "src"), "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{run}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, command)], env=environment | variables,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return run, process

    def kill(self, run: str, process: subprocess.Popen[bytes]) -> None:
        """End a run by force."""
        self.killed[run] = time.monotonic()
        process.kill()

    def audit(self) -> Findings:
        """What the journal and the server's log say."""
        result = audit(self.server.sent, self.journal, self.killed, concurrency=CONCURRENCY)
        result.calls, result.crashed = len(self.server.bodies), self.crashed
        return result


def storm_askers(folder: Path, *, calls: int, kills: int, seed: int) -> Findings:
    """Two processes at a time ask for the verdicts on the sample, under a new model's name once they are complete."""
    with StubServer(faults=STRANGE, share=SHARE, reply=reply_mostly, delay=0.01, random_seed=seed) as server:
        storm, running, complete = Storm(server, folder, seed=seed), dict[str, subprocess.Popen[bytes]](), 0
        moments = sorted(storm.draw.sample(range(calls), kills))

        def wanted() -> bool:
            return storm.crashed < _ENOUGH and bool(moments or len(server.bodies) < calls)

        with tqdm(total=calls, desc="askers", unit="call", mininterval=1) as bar:
            while running or wanted():
                bar.update(min(calls, len(server.bodies)) - bar.n)
                for run in [run for run, process in running.items() if process.poll() is not None]:
                    storm.crashed += running.pop(run).returncode != 0
                    complete = len(list(folder.glob("stub-*.json")))
                while len(running) < 2 and wanted():
                    model = f"stub-{complete}"
                    out = folder / f"{model}.json"
                    run, process = storm.start(SCRIPT, server.url, model, storm.journal, out)
                    running[run] = process
                if moments and len(server.bodies) >= moments[0]:
                    moments.pop(0)
                    time.sleep(storm.draw.uniform(0, 0.05))
                    run = storm.draw.choice(list(running))
                    storm.kill(run, running[run])
                    running.pop(run).wait()
                time.sleep(0.002)
        result = storm.audit()
        model = RuleModel(STUB, reply_by_rule)  # as the server, without one
        undisturbed = judge_sample(Asker(STUB, lambda _: model, Journal(), Decoding()))
        tables = [json.loads(file.read_text()) for file in folder.glob("stub-*.json")]
        for table in tables:
            for method, rows in undisturbed.items():
                pairs = zip(rows, table[method], strict=True)
                cells = [(row != other, other["reason"] in PASSES) for row, other in pairs]
                result.wrong += sum(differs and not passing for differs, passing in cells)
                result.wrong += sum(passing for _, passing in cells) > 0.05 * len(cells)  # a table of holes
        if not tables:
            raise ValueError("no table was completed; let it make more calls")
        return result


def main() -> int:
    """The storm, and what it came to."""
    parser = argparse.ArgumentParser(description="Runs killed at random moments against a faulty server, on loopback.")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=80, help="of processes that ask")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak.") as name:
        result = storm_askers(Path(name) / "askers", calls=options.calls, kills=options.kills, seed=options.seed)
    print(f"{result}{'  BROKEN' if result.broken else ''}", flush=True)
    return int(result.broken)


if __name__ == "__main__":
    sys.exit(main())
