"""Figures (dictionaries with `data` and `layout`) to HTML and JSON."""

from collections.abc import Mapping
from typing import Any

def to_html(
    fig: Mapping[str, Any],
    config: Mapping[str, Any] | None = ...,
    auto_play: bool = ...,
    include_plotlyjs: bool | str = ...,
    include_mathjax: bool | str = ...,
    post_script: str | list[str] | None = ...,
    full_html: bool = ...,
    animation_opts: Mapping[str, Any] | None = ...,
    default_width: int | str = ...,
    default_height: int | str = ...,
    validate: bool = ...,
    div_id: str | None = ...,
) -> str: ...
def to_json(
    fig: Mapping[str, Any],
    validate: bool = ...,
    pretty: bool = ...,
    remove_uids: bool = ...,
    engine: str | None = ...,
) -> str: ...
