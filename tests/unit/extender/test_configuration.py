"""What is added to kube-scheduler's configuration; the real one reads it in tests/cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.errors import InvalidInput
from stowplan.serve.extender.configuration import ClientTls, extender_configuration, extender_entry

URL = "http://127.0.0.1:10452"


def test_by_default_it_can_do_no_harm() -> None:
    assert extender_configuration(URL) == (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "extenders:\n"
        "- urlPrefix: http://127.0.0.1:10452\n"
        "  prioritizeVerb: prioritize\n"
        "  weight: 10\n"
        "  httpTimeout: 100ms\n"
        "  nodeCacheCapable: true\n"
        "  ignorable: true\n"
    )


def test_a_rule_table_is_asked_to_filter_and_before_preemption() -> None:
    entry = extender_entry(URL + "/", has_rules=True, weight=3, timeout_s=0.25, node_cache_capable=False)
    assert (entry["urlPrefix"], entry["filterVerb"], entry["preemptVerb"]) == (URL, "filter", "preempt")
    assert (entry["weight"], entry["httpTimeout"], entry["nodeCacheCapable"]) == (3, "250ms", False)
    assert "bindVerb" not in entry


def test_tls_names_files_on_the_schedulers_machine() -> None:
    tls = ClientTls(
        authority=Path("/k/ca.pem"), certificate=Path("/k/c.pem"), key=Path("/k/k.pem"), server_name="s"
    )
    document = yaml.safe_load(extender_configuration("https://extender.stowplan:10452", tls=tls))
    (entry,) = document["extenders"]
    assert entry["enableHTTPS"] is True
    assert entry["tlsConfig"] == {
        "caFile": "/k/ca.pem",
        "certFile": "/k/c.pem",
        "keyFile": "/k/k.pem",
        "serverName": "s",
    }


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("127.0.0.1:10452", {}, "write http"),
        ("ftp://x", {}, "write http"),
        ("http://", {}, "write http"),
        ("http://x?y=1", {}, "write http"),
        (URL, {"weight": 0}, "weight is 0"),
        (URL, {"timeout_s": 0.0}, "timeout is 0.0"),
        (URL, {"timeout_s": float("inf")}, "timeout is inf"),
        ("https://x", {}, "https needs the authority"),
        (URL, {"tls": ClientTls(authority=Path("ca"))}, "needs https"),
        ("https://x", {"tls": ClientTls(authority=Path("ca"), key=Path("k"))}, "belong together"),
    ],
)
def test_what_would_not_work_is_refused(url: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        extender_entry(url, **more)
