"""Role specs of language models: what a string means, what goes into hashes, and what is refused without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfqa.models import roles
from nfqa.models.roles import (
    DEFAULTS,
    GENERATORS,
    KINDS,
    ROLES,
    RoleSpec,
    identify_role,
    parse_generators,
    parse_role,
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:gpt", RoleSpec("judge", "openai", "gpt")),
        ("openai:org/m-7b", RoleSpec("judge", "openai", "org/m-7b")),
        ("openai:m:free", RoleSpec("judge", "openai", "m:free")),
        ("openai:m#lab", RoleSpec("judge", "openai", "m", "lab")),
        ("openai:m@http://h:8000/v1", RoleSpec("judge", "openai", "m", None, "http://h:8000/v1")),
        ("openai:m#lab@https://h/v1", RoleSpec("judge", "openai", "m", "lab", "https://h/v1")),
        ("hf:org/m@main", RoleSpec("judge", "hf", "org/m", "main")),
        ("hf:org/m", RoleSpec("judge", "hf", "org/m")),
        ("embedded:trained", RoleSpec("judge", "embedded", "trained")),
    ],
)
def test_a_judge_is_read_from_its_spec(spec, expected):
    assert parse_role("judge", spec) == expected


def test_an_evaluator_is_embedded_or_any_causal_model_in_process(tmp_path):
    assert parse_role("evaluator", DEFAULTS["evaluator"]) == RoleSpec("evaluator", "embedded", "small")
    assert parse_role("evaluator", "hf:org/m@main") == RoleSpec("evaluator", "hf", "org/m", "main")
    assert parse_role("evaluator", f"path:{tmp_path}").name == str(tmp_path)
    for spec in ("openai:m", "package:m"):  # a server does not tell the probability of a text that it is given
        with pytest.raises(ValueError, match=f"role evaluator is '{spec}'; expected embedded:NAME or hf:NAME or path:"):
            parse_role("evaluator", spec)


def test_an_embedded_evaluator_is_known_by_the_files_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(roles, "MODELS", tmp_path)
    folder = tmp_path / "evaluator_tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    before = parse_role("evaluator", "embedded:tiny").identity
    (folder / "evaluator.json").write_text("{}")
    after = parse_role("evaluator", "embedded:tiny").identity
    assert before != after
    assert before.startswith("embedded:tiny@")


def test_the_address_is_no_part_of_a_server_s_identity_and_the_tag_is():
    identities = {
        spec: parse_role("judge", spec).identity
        for spec in (
            "openai:m",
            "openai:m@http://one/v1",
            "openai:m@http://two/v1",
            "openai:m#b",
            "openai:m#b@http://x",
        )
    }
    assert list(identities.values()) == ["openai:m", "openai:m", "openai:m", "openai:m#b", "openai:m#b"]


def test_only_a_judge_or_generator_that_is_not_embedded_is_a_language_model(tmp_path):
    assert parse_role("judge", "openai:m").is_language_model
    assert parse_role("judge", "hf:m").is_language_model
    assert parse_role("generator", f"path:{tmp_path}").is_language_model
    assert not parse_role("embedder", "hf:m").is_language_model
    assert not any(parse_role(role, spec).is_language_model for role, spec in DEFAULTS.items())


def test_every_role_has_a_line_and_kinds():
    assert set(ROLES) == set(KINDS)
    assert set(DEFAULTS) <= set(ROLES)


def test_a_folder_is_read_once_for_its_identity(tmp_path, monkeypatch):
    read: list[Path] = []

    def count_and_hash(folder: Path) -> str:
        read.append(folder)
        return "0" * 64

    monkeypatch.setattr(roles, "_hash_folder", count_and_hash)
    spec = parse_role("judge", f"path:{tmp_path}")
    assert {spec.identity for _ in range(1000)} == {f"path:{tmp_path.name}@{'0' * 16}"}
    assert read == [tmp_path]


def test_the_generator_role_takes_up_to_three_language_models():
    one, two, three = parse_generators("hf:a, hf:b@r ,openai:c@http://h/v1")
    assert [one.name, two.revision, three.url] == ["a", "r", "http://h/v1"]
    assert parse_generators("embedded:degrader") == (RoleSpec("generator", "embedded", "degrader"),)
    assert identify_role("generator", "hf:a,openai:c@http://h/v1") == "hf:a, openai:c"
    assert identify_role("judge", "openai:a#b@http://h/v1") == "openai:a#b"


@pytest.mark.parametrize("spec", ["hf:a,hf:b,hf:c,hf:d", "hf:a,embedded:degrader"])
def test_more_generators_or_a_mixture_is_refused(spec):
    with pytest.raises(
        ValueError, match=rf"role generator is '{spec}'; expected up to {GENERATORS} language models, or"
    ):
        parse_generators(spec)


@pytest.mark.parametrize("spec", ["hf:a,,hf:b", "hf:a,", ""])
def test_a_gap_among_generators_is_refused(spec):
    with pytest.raises(ValueError, match=r"role generator is ''; expected embedded:NAME or hf:NAME or path:NAME or"):
        parse_generators(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hf:", r"role judge is 'hf:'; expected embedded:NAME or hf:NAME or path:NAME or openai:NAME, for example"),
        ("hf:@main", r"role judge is 'hf:@main'; expected"),
        ("openai:", r"role judge is 'openai:'; expected"),
        ("gpt-4", r"role judge is 'gpt-4'; expected"),
        ("vllm:m", r"role judge is 'vllm:m'; expected"),
        ("embedded:best", r"role judge is 'embedded:best'; expected embedded:trained or embedded:zero_shot"),
        ("path:/no/such", r"role judge is 'path:/no/such', but /no/such is not a folder with a model"),
        (
            "openai:@http://h",
            r"role judge is 'openai:@http://h'; expected openai:MODEL\[#TAG\]\[@http://HOST:PORT/v1\]",
        ),
        ("openai:m@h:8000/v1", r"role judge is 'openai:m@h:8000/v1'; expected openai:MODEL"),
        ("openai:m#", r"role judge is 'openai:m#'; expected openai:MODEL"),
        ("openai:m@http://", r"expected openai:MODEL"),
        ("openai:m@http://h/v1#t", r"expected openai:MODEL"),  # a tag behind the address would tell nothing apart
    ],
)
def test_a_judge_that_can_not_be_used_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        parse_role("judge", spec)


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@http://user:hush@host/v1",
        "openai:m@https://user:h@hush@host/v1",
        "openai:m@user:hush@host/v1",
        "openai:m@ftp://user:h@hush@host",
        "openai:m#@http://user:hush@host",
        "openai:http://user:hush@host",
        "opneai:m@http://user:hush@host/v1",
        "opneai:http://user:hush@host/v1",
    ],
)
def test_a_login_in_an_address_is_refused_and_never_shown(spec):
    with pytest.raises(ValueError, match="role judge") as caught:
        parse_role("judge", spec)
    assert "hush" not in str(caught.value)
