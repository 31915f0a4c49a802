package controller

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	apiv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	wfv1 "github.com/argoproj/argo-workflows/v4/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v4/util/logging"
	"github.com/argoproj/argo-workflows/v4/workflow/common"
	"github.com/argoproj/argo-workflows/v4/workflow/controller/entrypoint"
)

type anyEntry struct{}

func (anyEntry) Lookup(context.Context, string, entrypoint.Options) (*entrypoint.Image, error) {
	return &entrypoint.Image{Entrypoint: []string{"x"}}, nil
}

type nodeOut struct {
	Type     string   `json:"type"`
	Template string   `json:"template"`
	Phase    string   `json:"phase"`
	ID       string   `json:"id"`
	Children []string `json:"children,omitempty"`
	Boundary string   `json:"boundary,omitempty"`
}
type podOut struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Spec   map[string]any    `json:"spec"`
	Round  int               `json:"round"`
}
type wfOut struct {
	File  string             `json:"file"`
	Index int                `json:"index"`
	Name  string             `json:"name"`
	Phase string             `json:"phase"`
	Msg   string             `json:"message"`
	Nodes map[string]nodeOut `json:"nodes"`
	Pods  map[string]podOut  `json:"pods"`
}

func keep(c apiv1.Container) map[string]any {
	o := map[string]any{"name": c.Name}
	if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
		o["resources"] = c.Resources
	}
	if c.RestartPolicy != nil {
		o["restartPolicy"] = *c.RestartPolicy
	}
	if strings.HasPrefix(c.Image, "quay.io/argoproj/argoexec") == false {
		o["image"] = c.Image
	}
	if len(c.Ports) > 0 {
		o["ports"] = c.Ports
	}
	return o
}

func TestZZDump(t *testing.T) {
	root := os.Getenv("DUMP_ROOT")
	outF, _ := os.Create(os.Getenv("DUMP_OUT"))
	defer outF.Close()
	w := bufio.NewWriter(outF)
	defer w.Flush()
	ctx := logging.WithLogger(context.Background(), logging.NewSlogLogger(logging.Error, logging.Text))
	type item struct {
		file  string
		index int
		wf    *wfv1.Workflow
	}
	var items []item
	var shared []any
	var files []string
	_ = filepath.Walk(root, func(p string, i os.FileInfo, err error) error {
		if err == nil && !i.IsDir() && strings.HasSuffix(p, ".yaml") {
			files = append(files, p)
		}
		return nil
	})
	sort.Strings(files)
	for _, f := range files {
		b, _ := os.ReadFile(f)
		rel, _ := filepath.Rel(root, f)
		for i, r := range common.ParseObjects(ctx, b, false) {
			if r.Err != nil {
				continue
			}
			switch o := r.Object.(type) {
			case *wfv1.Workflow:
				items = append(items, item{rel, i, o})
			case *wfv1.CronWorkflow:
				items = append(items, item{rel, i, common.ConvertCronWorkflowToWorkflow(o)})
			case *wfv1.WorkflowTemplate:
				o.Namespace = "default"
				shared = append(shared, o)
			case *wfv1.ClusterWorkflowTemplate:
				shared = append(shared, o)
			}
		}
	}
	only := os.Getenv("DUMP_ONLY")
	for _, it := range items {
		if only != "" && !strings.Contains(it.file, only) {
			continue
		}
		func() {
			defer func() {
				if x := recover(); x != nil {
					fmt.Println("PANIC", it.file, x)
				}
			}()
			out := dump(ctx, it.wf, shared)
			out.File, out.Index = it.file, it.index
			b, _ := json.Marshal(out)
			w.Write(b)
			w.WriteString("\n")
			w.Flush()
		}()
	}
}

func dump(parent context.Context, wf *wfv1.Workflow, shared []any) wfOut {
	ctx, done := context.WithCancel(parent)
	defer done()
	if wf.Name == "" {
		wf.Name = wf.GenerateName + "x1"
	}
	wf.Namespace = "default"
	wf.UID = "0"
	opts := []interface{}{wf}
	for _, s := range shared {
		opts = append(opts, s.(runtime.Object).DeepCopyObject())
	}
	fails := strings.Split(wf.Annotations["test/fail"], ",")
	opts = append(opts, func(c *WorkflowController) {
		c.eventRecorderManager = &testEventRecorderManager{eventRecorder: record.NewFakeRecorder(100000)}
		if wf.Annotations["test/executor-cpu"] != "" {
			c.Config.Executor = &apiv1.Container{Resources: apiv1.ResourceRequirements{Requests: apiv1.ResourceList{"cpu": resourceMust(wf.Annotations["test/executor-cpu"])}}}
		}
	})
	cancel, ctl := newController(ctx, opts...)
	defer cancel()
	ctl.entrypoint = anyEntry{}
	pods := map[string]podOut{}
	var woc *wfOperationCtx
	cur := wf
	idle, before := 0, ""
	for round := 0; round < 40; round++ {
		woc = newWorkflowOperationCtx(ctx, cur, ctl)
		woc.operate(ctx)
		list, _ := ctl.kubeclientset.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		for _, p := range list.Items {
			name := p.Annotations[common.AnnotationKeyNodeName]
			if p.Labels[common.LabelKeyComponent] == "agent" {
				name = "#agent"
			}
			if _, ok := pods[name]; ok {
				continue
			}
			spec := map[string]any{}
			s := p.Spec
			if len(s.NodeSelector) > 0 {
				spec["nodeSelector"] = s.NodeSelector
			}
			if s.Affinity != nil {
				spec["affinity"] = s.Affinity
			}
			if len(s.Tolerations) > 0 {
				spec["tolerations"] = s.Tolerations
			}
			if s.SchedulerName != "" {
				spec["schedulerName"] = s.SchedulerName
			}
			if s.PriorityClassName != "" {
				spec["priorityClassName"] = s.PriorityClassName
			}
			if s.HostNetwork {
				spec["hostNetwork"] = true
			}
			var cs, is []any
			for _, c := range s.Containers {
				cs = append(cs, keep(c))
			}
			for _, c := range s.InitContainers {
				is = append(is, keep(c))
			}
			spec["containers"], spec["initContainers"] = cs, is
			var vs []string
			for _, v := range s.Volumes {
				if v.PersistentVolumeClaim != nil {
					vs = append(vs, v.PersistentVolumeClaim.ClaimName)
				}
			}
			if vs != nil {
				spec["claims"] = vs
			}
			pods[name] = podOut{Name: p.Name, Labels: p.Labels, Spec: spec, Round: round}
		}
		if woc.wf.Status.Fulfilled() {
			break
		}
		now := fmt.Sprint(len(pods), len(woc.wf.Status.Nodes))
		if now == before {
			idle++
		} else {
			idle = 0
		}
		before = now
		if idle > 4 {
			break
		}
		makePodsPhase(ctx, woc, apiv1.PodSucceeded, func(p *apiv1.Pod, _ *wfOperationCtx) {
			for _, f := range fails {
				if f != "" && strings.HasSuffix(p.Annotations[common.AnnotationKeyNodeName], f) {
					p.Status.Phase = apiv1.PodFailed
				}
			}
		})
		// give outputs to what has succeeded, so that those who ask for them go on
		for id, n := range woc.wf.Status.Nodes {
			if n.Type != wfv1.NodeTypePod || n.Phase.Fulfilled(nil) {
				continue
			}
			tmpl := woc.wf.GetTemplateByName(n.TemplateName)
			v := wfv1.AnyStringPtr(`["i1","i2"]`)
			r := `["i1","i2"]`
			zero := "0"
			o := &wfv1.Outputs{Result: &r, ExitCode: &zero}
			if tmpl != nil {
				for _, q := range tmpl.Outputs.Parameters {
					o.Parameters = append(o.Parameters, wfv1.Parameter{Name: q.Name, Value: v})
				}
				for _, q := range tmpl.Outputs.Artifacts {
					a := q
					a.S3 = &wfv1.S3Artifact{Key: "k"}
					o.Artifacts = append(o.Artifacts, a)
				}
			}
			n.Outputs = o
			woc.wf.Status.Nodes.Set(ctx, id, n)
		}
		cur = woc.wf
		time.Sleep(time.Millisecond)
	}
	out := wfOut{Name: woc.wf.Name, Phase: string(woc.wf.Status.Phase), Msg: woc.wf.Status.Message, Nodes: map[string]nodeOut{}, Pods: pods}
	for _, n := range woc.wf.Status.Nodes {
		o := nodeOut{Type: string(n.Type), Template: n.TemplateName, Phase: string(n.Phase), ID: n.ID}
		for _, c := range n.Children {
			if x, ok := woc.wf.Status.Nodes[c]; ok {
				o.Children = append(o.Children, x.Name)
			}
		}
		if x, ok := woc.wf.Status.Nodes[n.BoundaryID]; ok {
			o.Boundary = x.Name
		}
		out.Nodes[n.Name] = o
	}
	return out
}

func resourceMust(s string) resource.Quantity { return resource.MustParse(s) }
