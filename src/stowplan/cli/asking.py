"""Questions to a running service over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, cast

import aiohttp

from stowplan.errors import InvalidInput

__all__ = ["ask"]

_TIMEOUT_S: Final = 10.0
_NOT_FOUND: Final = 404
_OK: Final = 200

Json = dict[str, Any]


def ask(server: str, path: str) -> Json | None:
    """Return what `server` answers at `path`; None: it knows nothing of it.

    Raises:
        InvalidInput: nobody answers there, or not as a Stowplan scheduler does.
    """
    return asyncio.run(_ask(server.rstrip("/"), path))


async def _ask(server: str, path: str) -> Json | None:
    url = server + path
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as session,
            session.get(url) as answer,
        ):
            text, code = await answer.text(), answer.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        why = str(error) or f"no answer within {_TIMEOUT_S:g} s"
        raise InvalidInput(
            f"no scheduler answers at {server} ({why}); name its address with --server"
        ) from None
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if code not in (_OK, _NOT_FOUND) or not isinstance(found, dict):
        raise InvalidInput(
            f"{url} answers {code}, not as a Stowplan scheduler does; name its address with --server"
        )
    return cast("Json", found) if code == _OK else None
