package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	apierr "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	wfv1 "github.com/argoproj/argo-workflows/v4/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v4/util/logging"
	"github.com/argoproj/argo-workflows/v4/workflow/common"
	"github.com/argoproj/argo-workflows/v4/workflow/validate"
)

type wg map[string]*wfv1.WorkflowTemplate

func (g wg) Get(_ context.Context, n string) (*wfv1.WorkflowTemplate, error) {
	if t, ok := g[n]; ok {
		return t.DeepCopy(), nil
	}
	return nil, apierr.NewNotFound(schema.GroupResource{Resource: "workflowtemplates"}, n)
}

type cg map[string]*wfv1.ClusterWorkflowTemplate

func (g cg) Get(_ context.Context, n string) (*wfv1.ClusterWorkflowTemplate, error) {
	if t, ok := g[n]; ok {
		return t.DeepCopy(), nil
	}
	return nil, apierr.NewNotFound(schema.GroupResource{Resource: "clusterworkflowtemplates"}, n)
}

type verdict struct {
	File  string `json:"file"`
	Index int    `json:"index"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Error string `json:"error"`
}

func main() {
	ctx := logging.WithLogger(context.Background(), logging.NewSlogLogger(logging.Error, logging.Text))
	w, c := wg{}, cg{}
	type item struct {
		v   verdict
		obj any
		err error
	}
	var items []item
	for _, root := range os.Args[1:] {
		var files []string
		_ = filepath.Walk(root, func(p string, i os.FileInfo, err error) error {
			if err == nil && !i.IsDir() && (strings.HasSuffix(p, ".yaml") || strings.HasSuffix(p, ".json")) {
				files = append(files, p)
			}
			return nil
		})
		sort.Strings(files)
		for _, f := range files {
			b, _ := os.ReadFile(f)
			rel, _ := filepath.Rel(root, f)
			for i, r := range common.ParseObjects(ctx, b, false) {
				v := verdict{File: rel, Index: i}
				switch o := r.Object.(type) {
				case *wfv1.Workflow:
					v.Kind = "Workflow"
					v.Name = o.Name + o.GenerateName
				case *wfv1.CronWorkflow:
					v.Kind, v.Name = "CronWorkflow", o.Name
				case *wfv1.WorkflowTemplate:
					v.Kind, v.Name = "WorkflowTemplate", o.Name
					w[o.Name] = o
				case *wfv1.ClusterWorkflowTemplate:
					v.Kind, v.Name = "ClusterWorkflowTemplate", o.Name
					c[o.Name] = o
				default:
					v.Kind = fmt.Sprintf("%T", o)
				}
				items = append(items, item{v, r.Object, r.Err})
			}
		}
	}
	var out []verdict
	for _, it := range items {
		err := it.err
		if err == nil {
			func() {
				defer func() {
					if x := recover(); x != nil {
						err = fmt.Errorf("panic: %v", x)
					}
				}()
				switch o := it.obj.(type) {
				case *wfv1.Workflow:
					err = validate.ValidateWorkflow(ctx, w, c, o, nil, validate.ValidateOpts{})
				case *wfv1.CronWorkflow:
					err = validate.ValidateCronWorkflow(ctx, w, c, o, nil)
				case *wfv1.WorkflowTemplate:
					err = validate.ValidateWorkflowTemplate(ctx, w, c, o, nil, validate.ValidateOpts{})
				case *wfv1.ClusterWorkflowTemplate:
					err = validate.ValidateClusterWorkflowTemplate(ctx, w, c, o, nil, validate.ValidateOpts{})
				}
			}()
		}
		if err != nil {
			it.v.Error = err.Error()
		}
		out = append(out, it.v)
	}
	e := json.NewEncoder(os.Stdout)
	for _, v := range out {
		_ = e.Encode(v)
	}
}
