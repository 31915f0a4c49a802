"""Text that is written is read back as the same values, by Kubernetes' rules and by PyYAML's."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan.cli.documents import parse_documents
from stowplan.cli.yaml_text import yaml_text

PLAIN = "no y N on ~ null 1:30 0644 0o14 1_000 2024-01-01 1e3 .5 << = true - #x {{item}} ü🚀"
WORDS = [*PLAIN.split(), "", "? a", "a: b", "a\nb\n", " a\n", "a \n\n", "\t", "\x07", "\x85"]
VALUES = st.recursive(
    st.one_of(
        st.sampled_from(WORDS),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("word", WORDS)
def test_words_that_some_reader_takes_for_something_else(word: str) -> None:
    text = yaml_text([{"value": word, word: 1}])
    assert parse_documents(text, "x")[0][0] == {"value": word, word: 1}
    assert yaml.safe_load(text) == {"value": word, word: 1}


@given(st.dictionaries(st.sampled_from(WORDS), VALUES, min_size=1, max_size=3))
def test_any_document_comes_back(document: dict[str, object]) -> None:
    back = parse_documents(yaml_text([document]), "x")[0][0]
    assert json.dumps(back) == json.dumps(document)  # order and types too


def test_scripts_are_written_as_blocks_and_shared_objects_in_full() -> None:
    shared = {"source": "set -e\necho a\n"}
    assert yaml_text([{"a": shared, "b": shared}, {"c": 1}]) == (
        "a:\n  source: |\n    set -e\n    echo a\nb:\n  source: |\n    set -e\n    echo a\n---\nc: 1\n"
    )
