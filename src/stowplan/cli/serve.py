"""`stowplan serve …` and `stowplan config check`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from stowplan.cli.inputs import load_rules
from stowplan.cli.terminal import write
from stowplan.cli.yaml_text import yaml_text
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.serve.config import load_config

__all__ = ["check_config", "run_scheduler", "run_webhook", "show_extender", "show_registration"]


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

    config = load_config(file, {**overrides, **_listening(addresses)})
    return asyncio.run(serve_scheduler(config, load_rules(config.scheduler.rules)))


def run_webhook(
    file: Path | None, overrides: Mapping[str, object], addresses: Mapping[str, str | None]
) -> int:
    """Run the webhook until a signal ends it; return the exit code. Arguments as for `run_scheduler`.

    Raises:
        InvalidInput: the configuration, the certificate or an address cannot be used.
    """
    from stowplan.serve.app import serve_webhook

    return asyncio.run(serve_webhook(load_config(file, {**overrides, **_listening(addresses)})))


def show_extender(url: str, weight: int, timeout_s: float, authority: Path | None, *, has_rules: bool) -> int:
    """Write kube-scheduler's configuration.

    Raises:
        InvalidInput: an option cannot be used.
    """
    from stowplan.serve.extender.configuration import ClientTls, extender_configuration

    tls = ClientTls(authority=authority) if authority is not None else None
    text = extender_configuration(url, has_rules=has_rules, weight=weight, timeout_s=timeout_s, tls=tls)
    write(text.rstrip("\n"))
    return 0


def show_registration(
    service: str | None, url: str | None, authority: Path | None, failure_policy: str
) -> int:
    """Write the webhook's registrations.

    Raises:
        InvalidInput: an option cannot be used.
        InvalidFile: the authority cannot be read.
    """
    from stowplan.serve.webhook.registration import Registration, ServiceTarget, webhook_configurations

    if (service is None) == (url is None):
        raise InvalidInput("name either --service NAMESPACE/NAME or --url https://…")
    if failure_policy not in ("Ignore", "Fail"):
        raise InvalidInput(f"--failure-policy {failure_policy}: write Ignore or Fail")
    excluded = {"kube-system"}
    if service is not None:
        namespace, slash, name = service.partition("/")
        if not (slash and namespace and name):
            raise InvalidInput(f"--service {service}: write NAMESPACE/NAME")
        excluded.add(namespace)
        target: ServiceTarget | str = ServiceTarget(namespace, name)
    else:
        target = url or ""
    registration = Registration(
        target=target,
        ca_bundle=_read(authority),
        failure_policy="Ignore" if failure_policy == "Ignore" else "Fail",
        excluded_namespaces=tuple(sorted(excluded)),
    )
    write(yaml_text(webhook_configurations(registration)).rstrip("\n"))
    return 0


def check_config(file: Path | None) -> int:
    """Write the configuration as it takes effect.

    Raises:
        InvalidInput: it cannot be used.
    """
    config = load_config(file)
    load_rules(config.scheduler.rules)
    write(yaml_text([config.model_dump(mode="json")]).rstrip("\n"))
    return 0


def _listening(addresses: Mapping[str, str | None]) -> dict[str, object]:
    return {
        f"{section}.{field}": value
        for section, address in addresses.items()
        if address is not None
        for field, value in zip(("host", "port"), _address(section, address), strict=True)
    }


def _read(file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidFile(f"{file}: {error.strerror}; name a readable PEM file") from None


def _address(section: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise InvalidInput(
            f"{section} is to listen on {text!r}; write HOST:PORT, for example 127.0.0.1:10451"
        )
    return host.strip("[]"), int(port)
