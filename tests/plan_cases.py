"""Objects that tests of `stowplan plan` share: a template with unusual fields, its caller, another kind."""

LIBRARY = """\
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: lib}
spec:
  entrypoint: main
  future-field: {b: 1, a: 2}
  templates: [{name: main, container: {image: x, args: ["no", "0644"]}}]
"""
CALLER = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: nightly-}
spec: {workflowTemplateRef: {name: lib}}
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {answer: 'yes'}\n"
