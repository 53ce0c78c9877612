"""Upstream files arrive whole and right, or not at all; the registry that pins them is checked."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from huggingface_hub import constants
from test_gguf import write_gguf
from tiny_models import make_tiny_model

from nfqa.models.causal_lm import CausalLM
from nfqa.models.chat import Decoding, Request
from nfqa.models.roles import QWEN, parse_role
from reproduction.data import registry
from reproduction.data.gather import gather
from reproduction.data.registry import UnreachableError, UpstreamFile, fetch_file, read_registry

PROJECT = Path(__file__).parents[1]
GOOD = b'{"why?": []}'
FIELDS = {"name": "set", "owner": "owner", "repo": "repo", "commit": "c0ffee", "path": "dataset/set.json"}
FILE = UpstreamFile(**FIELDS, sha256=hashlib.sha256(GOOD).hexdigest(), licence="none", shape="graded")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mirror"
    (folder / FILE.relative).parent.mkdir(parents=True)
    monkeypatch.setenv("NFQA_MIRROR", str(folder))
    return folder


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_copied_once_from_a_mirror_and_an_altered_copy_replaced(tmp_path: Path, mirror: Path) -> None:
    (mirror / FILE.relative).write_bytes(GOOD)
    path = fetch_file(FILE, tmp_path / "store")
    assert path == tmp_path / "store" / "owner" / "repo" / "c0ffee" / "dataset" / "set.json"
    path.write_bytes(b"altered")
    assert fetch_file(FILE, tmp_path / "store").read_bytes() == GOOD
    shutil.rmtree(mirror)
    assert fetch_file(FILE, tmp_path / "store").read_bytes() == GOOD


def test_without_mirror_file_or_network_it_is_said_what_to_do(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise requests.ConnectionError("no route")

    with pytest.raises(UnreachableError, match=r"NFQA_MIRROR has no .*set\.json"):
        fetch_file(FILE, tmp_path / "store")
    monkeypatch.delenv("NFQA_MIRROR")
    monkeypatch.setattr(requests, "get", refuse)
    with pytest.raises(UnreachableError, match="NFQA_MIRROR to a folder with owner/repo"):
        fetch_file(FILE, tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_the_registry_pins_every_file_by_commit_and_has_the_bundled_ones() -> None:
    registry = read_registry(PROJECT)
    assert {len(file.commit) for file in registry.values()} == {40}
    optional = {"debateqa_test", "debateqa_dev"}
    assert {name for name, file in registry.items() if file.optional} == optional
    bundled = {file.sample for file in registry.values() if file.sample}
    assert bundled <= {path.name for path in (PROJECT / "data" / "sample").iterdir()}


class Upstream:
    """GitHub's two servers as one on loopback: RAW/OWNER/REPO/COMMIT/PATH and ARCHIVES/OWNER/REPO/tar.gz/COMMIT.

    `replies` has, for an address, what is done with the request; another address is not found. `paths` were asked for.
    """

    def __init__(self) -> None:
        self.replies: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.paths: list[str] = []
        self.ended = threading.Event()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                upstream.replies.get(self.path, Handler.refuse)(self)

            def do_GET(self) -> None:
                upstream.paths.append(self.path)
                upstream.replies.get(self.path, Handler.refuse)(self)

            def refuse(self) -> None:
                self.send_error(404)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Upstream:
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def wait(self, _: BaseHTTPRequestHandler) -> None:
        """Never answer, until the test is over."""
        self.ended.wait(30)


def send(content: bytes, *, size: int | None = None, kind: str = "text/plain", **headers: str) -> Callable:
    """Send a body, under a Content-Length that may be another one, or (size = -1) under none; to HEAD no body."""

    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", kind)
        if size != -1:
            request.send_header("Content-Length", str(len(content) if size is None else size))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(content)

    return reply


def redirect(address: str) -> Callable:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", address)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return reply


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    for name in ("NFQA_MIRROR", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Upstream() as upstream:
        monkeypatch.setenv("NFQA_UPSTREAM", f"{upstream.url}/")
        yield upstream


FOLDER = {"sets/one.csv": b"#id\trank\targument\n7\t3.5\tZoos help.\n", "README.md": b"no part of the set"}
ADDRESSES = {
    "file": "/owner/repo/c0ffee/dataset/set.json",
    "archive": "/owner/repo/tar.gz/c0ffee",
}


def make_gathered(folder: Path) -> UpstreamFile:
    """A file that is made of the files of the folder `sets` of a repository."""
    path = folder / "upstream" / "sets" / "one.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(FOLDER["sets/one.csv"])
    sha256 = hashlib.sha256(gather("convincing", path.parent)).hexdigest()
    return UpstreamFile(**FIELDS | {"path": "sets"}, sha256=sha256, licence="none", shape="convincing")


def pack(files: dict[str, bytes]) -> bytes:
    """An archive as codeload gives it: all in one folder REPO-COMMIT."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"repo-c0ffee/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def test_a_file_and_a_gathered_folder_are_fetched_from_a_server(tmp_path: Path, upstream: Upstream) -> None:
    upstream.replies = {
        ADDRESSES["file"]: redirect("/elsewhere"),
        "/elsewhere": send(GOOD),
        ADDRESSES["archive"]: send(pack(FOLDER), size=-1, kind="application/x-gzip"),  # codeload names no length
    }
    store = tmp_path / "store"
    assert fetch_file(FILE, store).read_bytes() == GOOD
    gathered = make_gathered(tmp_path)
    assert fetch_file(gathered, store).name == "sets.jsonl"
    assert sorted(path.name for path in list_files(store)) == ["set.json", "sets.jsonl"]
    assert len(upstream.paths) == 3
    for file in (FILE, gathered):
        fetch_file(file, store)
    assert len(upstream.paths) == 3, "what lies in the store is not asked for"


WHOLE = pack(FOLDER | {"random.bin": hashlib.shake_256(b"x").digest(20_000)})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pooch closes no refused answer itself
@pytest.mark.parametrize("kind", ADDRESSES)
@pytest.mark.parametrize(
    "fault",
    ["other bytes", "cut", "broken", "stalled"],
)
def test_a_server_s_fault_is_one_line_that_names_the_file_and_leaves_nothing(
    tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, kind: str, fault: str
) -> None:
    monkeypatch.setattr(registry, "_TIMEOUT", 0.2)
    content = {"file": GOOD, "archive": WHOLE}[kind]
    address, half = ADDRESSES[kind], content[: len(content) // 2]
    other = pack({"sets/one.csv": b"another table"}) if kind == "archive" else b"other"
    replies = {
        "other bytes": send(other),
        "cut": send(half, size=len(content)),
        "broken": lambda request: request.send_error(503),
        "stalled": lambda request: (send(half, size=len(content))(request), upstream.wait(request)),
    }
    upstream.replies = {address: replies[fault]}
    file = {"file": FILE, "archive": make_gathered(tmp_path)}[kind]
    with pytest.raises((ValueError, UnreachableError)) as caught:
        fetch_file(file, tmp_path / "store")
    message = str(caught.value)
    del caught
    gc.collect()
    assert "\n" not in message
    assert message.startswith("set: ")
    assert Path(address).name in message or str(file.relative) in message
    assert "NFQA_MIRROR" in message
    assert fault != "broken" or "503" in message
    assert list_files(tmp_path / "store") == []
    assert [path.name for path in tmp_path.rglob("*") if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    "content",
    [
        WHOLE[:-2_000],
        pack({"elsewhere/one.csv": b""}),
        pack({"../../x": b""}),
    ],
)
def test_an_archive_that_is_damaged_or_lacks_the_folder_is_one_line(
    tmp_path: Path, upstream: Upstream, content: bytes
) -> None:
    upstream.replies = {ADDRESSES["archive"]: send(content)}
    with pytest.raises((ValueError, UnreachableError), match=r"^set: [^\n]*c0ffee[^\n]*NFQA_MIRROR[^\n]*$"):
        fetch_file(make_gathered(tmp_path), tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_files_come_from_github_unless_another_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NFQA_UPSTREAM", raising=False)
    assert FILE.url == "https://raw.githubusercontent.com/owner/repo/c0ffee/dataset/set.json"
    gathered = FILE.model_copy(update={"shape": "convincing"})
    assert gathered.url == "https://codeload.github.com/owner/repo/tar.gz/c0ffee"


COMMIT = "c0ffee00" * 5
REVISIONS = (COMMIT, "main")  # transformers asks the hub for the commit of `main` once in a process
HUB_PATH = "resolve/{revision}/{filename}"


def send_hub_file(content: bytes) -> Callable:
    """As the hub answers for a file of a commit, to HEAD and GET."""
    return send(content, **{"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT})


@pytest.fixture
def hub(tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    """A hub on loopback with a tiny model as a/b, of which nothing is cached."""
    addresses = {"ENDPOINT": upstream.url, "HUGGINGFACE_CO_URL_TEMPLATE": f"{upstream.url}/{{repo_id}}/{HUB_PATH}"}
    for name, value in (addresses | {"HF_HUB_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)  # made once in a process, for the hub of that time
    info = {"id": "a/b", "sha": COMMIT, "siblings": []}
    upstream.replies = {"/": send_hub_file(b""), "/api/models/a/b": send_hub_file(json.dumps(info).encode())}
    for file in make_tiny_model(tmp_path / "model").iterdir():
        for revision in REVISIONS:
            upstream.replies[f"/a/b/resolve/{revision}/{file.name}"] = send_hub_file(file.read_bytes())
    return upstream


def test_a_model_of_the_hub_is_fetched_once_and_named_by_its_commit(tmp_path: Path, hub: Upstream) -> None:
    model = CausalLM(parse_role("judge", "hf:a/b"), device="cpu")
    assert model.identity == f"hf:a/b@{COMMIT}|float32"
    request = Request("The sea", labels=("1", "2"))
    replies = {
        spec: next(CausalLM(parse_role("judge", spec), device="cpu").answer([request], Decoding(reading="logits")))[1]
        for spec in ("hf:a/b", f"path:{tmp_path / 'model'}")
    }
    assert len({reply.logprobs for reply in replies.values()}) == 1
    fetched = [path for path in hub.paths if path.endswith("model.safetensors")]
    assert len(fetched) == 1
    hub.replies = {"/": lambda request: request.send_error(503)}  # what is cached is opened without the hub
    assert CausalLM(parse_role("judge", "hf:a/b"), device="cpu").identity == model.identity
    assert [path for path in hub.paths if path.endswith("model.safetensors")] == fetched


@pytest.fixture
def gguf_file(tmp_path: Path, hub: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny GGUF file that the hub has as a/b/tiny.gguf."""
    monkeypatch.setenv("NFQA_CACHE", str(tmp_path / "converted"))
    file = write_gguf(tmp_path / "model", tmp_path / "tiny.gguf")
    hub.replies |= {f"/a/b/resolve/{revision}/tiny.gguf": send_hub_file(file.read_bytes()) for revision in REVISIONS}
    return file


def test_a_gguf_file_of_the_hub_is_fetched_once_and_is_the_one_at_a_path(gguf_file: Path, hub: Upstream) -> None:
    request = Request("The sea", labels=("1", "2"))
    specs = ("hf:a/b/tiny.gguf", f"path:{gguf_file}", "hf:a/b/tiny.gguf")
    models = [CausalLM(parse_role("judge", spec), device="cpu") for spec in specs]
    replies = {next(model.answer([request], Decoding(reading="logits")))[1].logprobs for model in models}
    assert len(replies) == 1
    digest = hashlib.sha256(gguf_file.read_bytes()).hexdigest()[:16]
    assert {model.identity for model in models} == {f"gguf:tiny@{digest}|float32"}
    assert len([path for path in hub.paths if path.endswith("tiny.gguf")]) == 1


@pytest.mark.parametrize("place", ["hub", "folder"])
def test_another_file_than_the_one_whose_verdicts_are_committed_is_refused(
    gguf_file: Path, hub: Upstream, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    spec = parse_role("judge", QWEN)
    repository, _, name = spec.name.rpartition("/")
    half = gguf_file.read_bytes()[:-100]
    if place == "folder":
        (gguf_file.parent / name).write_bytes(half)
        monkeypatch.setenv("NFQA_MODELS", str(gguf_file.parent))
    hub.replies |= {f"/{repository}/resolve/{revision}/{name}": send_hub_file(half) for revision in REVISIONS}
    with pytest.raises(ValueError, match=rf"^[^\n]*{name}: sha256 begins with \w+, but cc324af070c2ecbf is that of"):
        CausalLM(spec, device="cpu").tokenizer  # noqa: B018
    at_path = gguf_file.parent / name
    at_path.write_bytes(half)
    assert parse_role("judge", f"path:{at_path}").identity != spec.identity  # by its path it is another model
