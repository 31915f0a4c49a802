"""`stowplan serve …` and `stowplan config check`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from stowplan.cli.inputs import load_rules
from stowplan.cli.terminal import write
from stowplan.cli.yaml_text import yaml_text
from stowplan.errors import InvalidInput
from stowplan.serve.config import load_config

__all__ = ["check_config", "run_scheduler"]


def run_scheduler(
    file: Path | None, overrides: Mapping[str, object], addresses: Mapping[str, str | None]
) -> int:
    """Run the scheduler until a signal ends it; return the exit code.

    Args:
        file: the configuration.
        overrides: what the command line says, by dotted path.
        addresses: HOST:PORT by section.

    Raises:
        InvalidInput: the configuration, or an address, cannot be used.
    """
    from stowplan.serve.app import serve_scheduler

    listened = {
        f"{section}.{field}": value
        for section, address in addresses.items()
        if address is not None
        for field, value in zip(("host", "port"), _address(section, address), strict=True)
    }
    config = load_config(file, {**overrides, **listened})
    return asyncio.run(serve_scheduler(config, load_rules(config.scheduler.rules)))


def check_config(file: Path | None) -> int:
    """Write the configuration as it takes effect.

    Raises:
        InvalidInput: it cannot be used.
    """
    config = load_config(file)
    load_rules(config.scheduler.rules)
    write(yaml_text([config.model_dump(mode="json")]).rstrip("\n"))
    return 0


def _address(section: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise InvalidInput(
            f"{section} is to listen on {text!r}; write HOST:PORT, for example 127.0.0.1:10451"
        )
    return host.strip("[]"), int(port)
