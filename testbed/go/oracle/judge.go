package main

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	stepGate   = "PreEnqueue"
	stepPod    = "PreFilter"
	stepResult = "PreFilterResult"
	stepNode   = "Filter"
)

var errNoPlugin = errors.New("kube-scheduler refused and named no plugin")

// oracle answers cases with a scheduler that it keeps until a plugin panics.
type oracle struct {
	scheduler *scheduler
	panics    *panicLog
}

func newOracle() (*oracle, error) {
	made, err := newScheduler()
	return &oracle{scheduler: made, panics: watchPanics()}, err
}

// judge answers one case. What a panicking plugin leaves behind nobody knows, so then everything is built anew.
func (o *oracle) judge(found *objects, asked request) (any, error) {
	forget, err := o.scheduler.hold(found)
	if err != nil {
		return nil, err
	}
	judge, err := newJudge(o.scheduler, o.panics, found)
	if err != nil {
		return nil, err
	}
	for _, pod := range found.pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		if err := o.judgePod(judge, pod, asked); err != nil {
			var panicked *panicError
			if !errors.As(err, &panicked) {
				return nil, fmt.Errorf("Pod %s: %w", fullName(pod), err)
			}
			o.scheduler.end()
			o.scheduler, err = newScheduler()
			return panicked.answer(fullName(pod), judge.at), err
		}
	}
	return judge.answer, forget()
}

func (o *oracle) judgePod(judge *judge, pod *corev1.Pod, asked request) (err error) {
	o.panics.begin()
	defer o.panics.caught(&err)
	verdict := &podVerdict{
		Refused:  map[string]bitmap{},
		RuledOut: map[string]bitmap{},
		First:    make([]byte, len(judge.nodes)),
		Feasible: newBitmap(len(judge.nodes)),
	}
	judge.verdict, judge.hasReasons = verdict, asked.HasReasons
	judge.statuses = nil
	judge.answer.Pods[fullName(pod)] = verdict
	if err := judge.askAlone(pod); err != nil {
		return err
	}
	state := framework.NewCycleState()
	feasible, err := judge.askAll(pod, state)
	if err != nil {
		return err
	}
	if asked.HasScores && len(feasible) > 0 {
		judge.score(pod, state, feasible)
	}
	if asked.HasPreemptions && judge.statuses != nil && verdict.Failed == "" {
		if err := judge.preempt(pod, state); err != nil {
			return err
		}
	}
	return o.panics.first()
}

// judge holds what all pods of a case share.
type judge struct {
	*scheduler
	panics *panicLog
	found  *objects
	nodes  []fwk.NodeInfo
	index  map[string]int
	number map[string]byte // of a plugin, from 1
	all    bitmap
	answer *verdicts

	// Of the pod that is judged.
	verdict    *podVerdict
	hasReasons bool
	at         string
	statuses   *framework.NodeToStatus // nil, if no node was looked at because the pod is gated
}

func newJudge(s *scheduler, panics *panicLog, found *objects) (*judge, error) {
	j := &judge{
		scheduler: s,
		panics:    panics,
		found:     found,
		nodes:     make([]fwk.NodeInfo, len(found.nodes)),
		index:     make(map[string]int, len(found.nodes)),
		number:    make(map[string]byte, len(s.alone)),
		all:       newBitmap(len(found.nodes)),
		answer:    &verdicts{Type: "verdicts", Nodes: []string{}, Plugins: []string{}, Pods: map[string]*podVerdict{}},
	}
	for index, node := range found.nodes {
		info, err := s.snapshot.Get(node.Name)
		if err != nil {
			return nil, err
		}
		j.nodes[index] = info
		j.index[node.Name] = index
		j.all.set(index)
		j.answer.Nodes = append(j.answer.Nodes, node.Name)
	}
	for _, lone := range s.alone {
		j.answer.Plugins = append(j.answer.Plugins, lone.name)
		j.number[lone.name] = byte(len(j.answer.Plugins))
	}
	return j, nil
}

// askAlone asks every plugin as if there were no other.
func (j *judge) askAlone(pod *corev1.Pod) error {
	for _, gate := range j.whole.PreEnqueuePlugins() {
		j.at = stepGate + " " + gate.Name()
		if status := gate.PreEnqueue(j.ctx, pod); !status.IsSuccess() {
			j.reject(gate.Name(), stepGate, status)
		}
	}
	for _, lone := range j.alone {
		if lone.framework != nil {
			j.askOne(lone, pod)
		}
		if err := j.panics.first(); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) askOne(lone lonePlugin, pod *corev1.Pod) {
	state := framework.NewCycleState()
	j.at = stepPod + " " + lone.name
	left, status, _ := lone.framework.RunPreFilterPlugins(j.ctx, state, pod)
	if !left.AllNodes() {
		j.ruleOut(lone.name, left)
		if len(left.NodeNames) == 0 {
			return // the status says only that no node is left
		}
	}
	if !status.IsSuccess() {
		j.reject(lone.name, stepPod, status)
		return
	}
	if state.GetSkipFilterPlugins().Has(lone.name) {
		return
	}
	for index, node := range j.nodes {
		if !left.AllNodes() && !left.NodeNames.Has(j.answer.Nodes[index]) {
			continue
		}
		j.at = stepNode + " " + lone.name + " " + j.answer.Nodes[index]
		status := lone.framework.RunFilterPluginsWithNominatedPods(j.ctx, state, pod, node)
		if !status.IsSuccess() {
			j.refusedBy(lone.name).set(index)
			j.explain(lone.name, stepNode, status, index)
		}
	}
}

func (j *judge) refusedBy(plugin string) bitmap {
	if _, ok := j.verdict.Refused[plugin]; !ok {
		j.verdict.Refused[plugin] = newBitmap(len(j.nodes))
	}
	return j.verdict.Refused[plugin]
}

func (j *judge) reject(plugin, step string, status *fwk.Status) {
	j.verdict.Rejected = append(j.verdict.Rejected, plugin)
	copy(j.refusedBy(plugin), j.all)
	if j.hasReasons {
		j.verdict.Reasons = append(j.verdict.Reasons, refusal{plugin, step, status.Code().String(), status.Message(), j.all})
	}
}

func (j *judge) ruleOut(plugin string, left *fwk.PreFilterResult) {
	out := newBitmap(len(j.nodes))
	refused := j.refusedBy(plugin)
	for index, name := range j.answer.Nodes {
		if !left.NodeNames.Has(name) {
			out.set(index)
			refused.set(index)
		}
	}
	j.verdict.RuledOut[plugin] = out
	if j.hasReasons {
		code := fwk.UnschedulableAndUnresolvable.String()
		j.verdict.Reasons = append(j.verdict.Reasons, refusal{plugin, stepResult, code, "node is left out", out})
	}
}

// explain keeps one reason per plugin, code and words: many nodes are refused with the same.
func (j *judge) explain(plugin, step string, status *fwk.Status, index int) {
	if !j.hasReasons {
		return
	}
	code, words := status.Code().String(), status.Message()
	for _, known := range j.verdict.Reasons {
		if known.Plugin == plugin && known.Step == step && known.Code == code && known.Reason == words {
			known.Nodes.set(index)
			return
		}
	}
	nodes := newBitmap(len(j.nodes))
	nodes.set(index)
	j.verdict.Reasons = append(j.verdict.Reasons, refusal{plugin, step, code, words, nodes})
}

// askAll runs the default profile as kube-scheduler does (findNodesThatFitPod in schedule_one.go) and notes
// which plugin it names for each node. It returns the nodes that are left.
func (j *judge) askAll(pod *corev1.Pod, state *framework.CycleState) ([]fwk.NodeInfo, error) {
	for _, gate := range j.whole.PreEnqueuePlugins() {
		if status := gate.PreEnqueue(j.ctx, pod); !status.IsSuccess() {
			return nil, j.nameForAll(gate.Name())
		}
	}
	j.at = stepPod
	left, status, _ := j.whole.RunPreFilterPlugins(j.ctx, state, pod)
	if err := j.panics.first(); err != nil {
		return nil, err
	}
	j.noteFailure(status)
	j.statuses = framework.NewDefaultNodeToStatus()
	if !status.IsSuccess() {
		j.statuses.SetAbsentNodesStatus(status)
	}
	if !status.IsSuccess() && status.Plugin() != "" {
		return nil, j.nameForAll(status.Plugin())
	}
	var feasible []fwk.NodeInfo
	for index, node := range j.nodes {
		name := j.answer.Nodes[index]
		j.at = stepNode + " " + name
		plugin := ""
		if !left.AllNodes() && !left.NodeNames.Has(name) {
			plugin = j.rulesOut(index)
		} else if status := j.whole.RunFilterPluginsWithNominatedPods(j.ctx, state, pod, node); !status.IsSuccess() {
			j.statuses.Set(name, status)
			plugin = status.Plugin()
			j.noteFailure(status)
		} else {
			feasible = append(feasible, node)
			j.statuses.Set(name, status)
			j.verdict.Feasible.set(index)
			continue
		}
		if j.number[plugin] == 0 {
			return nil, fmt.Errorf("%w for %s (%q)", errNoPlugin, name, plugin)
		}
		j.verdict.First[index] = j.number[plugin]
	}
	return feasible, nil
}

// noteFailure keeps the first status that is no refusal but an error: kube-scheduler then gives the attempt up.
func (j *judge) noteFailure(status *fwk.Status) {
	if j.verdict.Failed == "" && !status.IsSuccess() && !status.IsRejected() {
		j.verdict.Failed = status.Message()
	}
}

func (j *judge) nameForAll(plugin string) error {
	if j.number[plugin] == 0 {
		return fmt.Errorf("%w (%q)", errNoPlugin, plugin)
	}
	for index := range j.nodes {
		j.verdict.First[index] = j.number[plugin]
	}
	return nil
}

// rulesOut names the first plugin whose PreFilter left the node out; kube-scheduler itself names all of them
// together.
func (j *judge) rulesOut(index int) string {
	for _, lone := range j.alone {
		if out, ok := j.verdict.RuledOut[lone.name]; ok && out.has(index) {
			return lone.name
		}
	}
	return ""
}

// score runs the score plugins over the feasible nodes. A plugin that fails or panics here leaves the filters'
// verdict as it is: kube-scheduler has come so far as well.
func (j *judge) score(pod *corev1.Pod, state *framework.CycleState, feasible []fwk.NodeInfo) {
	failed := func() (err error) {
		defer j.panics.caught(&err)
		return j.tryScore(pod, state, feasible)
	}()
	if failed != nil {
		j.verdict.Unscored = strings.ReplaceAll(failed.Error(), "\n", " ")
	}
}

func (j *judge) tryScore(pod *corev1.Pod, state *framework.CycleState, feasible []fwk.NodeInfo) error {
	status := j.whole.RunPreScorePlugins(j.ctx, state, pod, feasible)
	if err := j.panics.first(); err != nil {
		return err
	}
	if !status.IsSuccess() {
		return status.AsError()
	}
	byNode, status := j.whole.RunScorePlugins(j.ctx, state, pod, feasible)
	if err := j.panics.first(); err != nil {
		return err
	}
	if !status.IsSuccess() {
		return status.AsError()
	}
	scores := map[string][]int64{}
	total := make([]int64, len(byNode))
	for index, node := range byNode {
		total[index] = node.TotalScore
		for _, one := range node.Scores {
			scores[one.Name] = append(scores[one.Name], one.Score)
		}
	}
	j.verdict.Total, j.verdict.Scores = total, scores
	return nil
}
