"""What kube-scheduler sends and wants back, byte for byte."""

import json

import msgspec
import pytest

from stowplan.serve.extender import wire
from stowplan.serve.extender.wire import BadRequest

POD = (
    b'{"metadata":{"name":"p","namespace":"ns","uid":"u","managedFields":[{"x":1}]},"spec":{"containers":[]}}'
)
NAMES = b'{"Pod":' + POD + b',"Nodes":null,"NodeNames":["a","b"]}'
NODES = (
    b'{"Pod":' + POD + b',"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a","uid":"1"},"spec":{}},'
    b'{"metadata":{"name":"b"},"status":{"x":[1,2]}}]},"NodeNames":null}'
)
VICTIMS = (
    b'{"Pod":' + POD + b',"NodeNameToVictims":null,"NodeNameToMetaVictims":'
    b'{"a":{"Pods":[{"UID":"1"},{"UID":"2"}],"NumPDBViolations":1},"b":{"Pods":[{"UID":"3"}],"NumPDBViolations":0}}}'
)
WHOLE_VICTIMS = (
    b'{"Pod":' + POD + b',"NodeNameToMetaVictims":null,"NodeNameToVictims":'
    b'{"a":{"Pods":[{"metadata":{"name":"x","uid":"1"}}],"NumPDBViolations":2}}}'
)


def test_names_are_answered_with_names() -> None:
    question = wire.read_question(NAMES)
    assert (question.head.key, question.head.metadata.uid) == ("ns/p", "u")
    assert (question.pod, question.node_names) == (POD, ["a", "b"])
    assert wire.filter_answer(question, {}) == (
        b'{"Nodes":null,"NodeNames":["a","b"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
    )
    assert wire.filter_answer(question, {"a": "no", "b": "no"}) == (
        b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{"a":"no","b":"no"},"Error":""}'
    )


def test_whole_nodes_are_answered_with_whole_nodes() -> None:
    question = wire.read_question(NODES)
    assert question.node_names == ["a", "b"]
    assert wire.filter_answer(question, {"a": "rule 'x' forbids this node"}) == (
        b'{"Nodes":{"items":[{"metadata":{"name":"b"},"status":{"x":[1,2]}}]},"NodeNames":null,"FailedNodes":{},'
        b'"FailedAndUnresolvableNodes":{"a":"rule \'x\' forbids this node"},"Error":""}'
    )


def test_levels_are_a_list_of_host_and_score() -> None:
    assert wire.prioritize_answer({"a": 10, "b": 1}) == b'[{"Host":"a","Score":10},{"Host":"b","Score":1}]'
    assert wire.prioritize_answer({}) == b"[]"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (
            VICTIMS,
            {"b": {"Pods": [{"UID": "3"}], "NumPDBViolations": 0}},
        ),
        (WHOLE_VICTIMS, {}),
    ],
)
def test_victims_stay_as_they_are_but_for_refused_nodes(body: bytes, answer: dict[str, object]) -> None:
    preemption = wire.read_preemption(body)
    assert json.loads(wire.preempt_answer(preemption, {"a": "no"})) == {"NodeNameToMetaVictims": answer}


def test_whole_victims_are_answered_by_their_uids() -> None:
    answer = json.loads(wire.preempt_answer(wire.read_preemption(WHOLE_VICTIMS), {}))
    assert answer == {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "the request: "),
        (b"{", "the request: "),
        (b"[]", "the request: Expected `object`, got `array`"),
        (b"{}", "the request: Object missing required field `Pod`"),
        (b'{"Pod":[],"NodeNames":[]}', "Pod: Expected `object`, got `array`"),
        (b'{"Pod":{"metadata":{"name":"p","namespace":"n"}},"NodeNames":[]}', "Pod.metadata: Object missing"),
        (b'{"Pod":{"metadata":{"name":1,"namespace":"n","uid":"u"}},"NodeNames":[]}', "Pod.metadata.name: "),
        (b'{"Pod":' + POD + b"}", "NodeNames: neither it nor Nodes"),
        (b'{"Pod":' + POD + b',"NodeNames":["a",7]}', "NodeNames[1]: Expected `str`, got `int`"),
        (b'{"Pod":' + POD + b',"NodeNames":"a"}', "NodeNames: Expected `array | null`, got `str`"),
        (
            b'{"Pod":' + POD + b',"Nodes":{"items":[{"metadata":{"name":"a"}},{}]}}',
            "Nodes.items[1]: Object missing",
        ),
        (
            b'{"Pod":' + b'{"spec":' * 5000 + b"1" + b"}" * 5000 + b',"NodeNames":[]}',
            "the request: nested too deep",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(body: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wire.read_question(body)
    assert str(refused.value).startswith(field)
    assert "\n" not in str(refused.value)


def test_a_preemption_without_a_pod_is_refused() -> None:
    with pytest.raises(BadRequest, match="Pod"):
        wire.read_preemption(b'{"NodeNameToMetaVictims":{}}')


def test_raw_parts_do_not_keep_the_whole_request() -> None:
    # A slice of the request's memory, kept with the pod, would keep megabytes of nodes.
    assert type(wire.read_question(NAMES).pod) is bytes
    assert isinstance((wire.read_question(NODES).nodes or [])[0], msgspec.Raw)
