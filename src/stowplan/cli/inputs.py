"""Small input files of the commands: rule tables and fault plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stowplan.cli.documents import read_documents
from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.errors import InvalidFile, InvalidInput

__all__ = ["load_rules", "only_document"]


def load_rules(path: Path | None) -> RuleTable:
    """Return the operator's rule table; the empty one without a path.

    Raises:
        InvalidFile: the file cannot be read, or does not hold one document.
        InvalidInput: it is no rule table; says which rule and field.
    """
    if path is None:
        return NO_RULES
    document = only_document(path)
    try:
        return RuleTable.parse(document)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def only_document(path: Path) -> Any:  # noqa: ANN401 (a document is any; readers check)
    """Return the one document of a YAML or JSON file.

    Raises:
        InvalidFile: the file cannot be read, or does not hold exactly one document.
    """
    if path.is_dir():
        raise InvalidFile(f"{path}: is a folder; name a file")
    documents = list(read_documents([str(path)]))
    if len(documents) != 1:
        raise InvalidFile(f"{path}: holds {len(documents)} documents; put everything into one")
    return documents[0][0]
