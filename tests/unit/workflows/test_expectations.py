"""Equal pods share a task and a workflow; what is kept for that stays small however many others come by."""

from dataclasses import replace

from stowplan.core.domain import ClassKey, PodShape, Resources, WorkflowProgress
from stowplan.serve.workflows.expectations import Expectations

MANY = 3000  # several times what is kept
KEY = ClassKey("origin", "template", "")
COMMON = PodShape(requests=Resources({"cpu": 1000}))


def asked(expectations: Expectations, shape: PodShape) -> WorkflowProgress:
    return expectations.alone(expectations.task(KEY, "", None, shape))


def test_a_shape_that_comes_again_and_again_is_one_task_and_others_are_forgotten() -> None:
    expectations = Expectations()
    common = asked(expectations, COMMON)
    first = replace(COMMON, labels=(("pod", "first"),))
    once = asked(expectations, first)
    for number in range(MANY):
        other = asked(expectations, replace(COMMON, labels=(("pod", str(number)),)))
        assert other is not common
        assert other.workflow.tasks[0].shape.labels == (("pod", str(number)),)
        assert asked(expectations, replace(COMMON)) is common
    assert len(expectations._tasks) == len(expectations._alone) < MANY / 2
    again = asked(expectations, first)
    assert again is not once
    assert again.workflow.tasks == once.workflow.tasks


def test_a_new_model_makes_new_tasks() -> None:
    expectations = Expectations()
    before = asked(expectations, COMMON)
    expectations.renew(expectations.model)
    assert asked(expectations, COMMON) is not before
