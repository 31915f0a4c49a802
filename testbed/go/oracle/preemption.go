package main

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// preempting is what kube-scheduler's preemption would do for a pod, were no node feasible.
type preempting struct {
	// Ineligible says why the pod may not preempt now.
	Ineligible string `json:"ineligible,omitempty"`
	// Potential are the nodes on which preemption is tried.
	Potential bitmap `json:"potential"`
	// Candidates are those of them where it helps, in order of nodes.
	Candidates []candidate `json:"candidates,omitempty"`
	// Chosen is the node of the best; of equal ones, any.
	Chosen string `json:"chosen,omitempty"`
}

type candidate struct {
	Node       string   `json:"node"`
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

func newPreemption(s *scheduler, profile *config.KubeSchedulerProfile) (*defaultpreemption.DefaultPreemption, error) {
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	for _, args := range profile.PluginConfig {
		if args.Name == defaultpreemption.Name {
			return defaultpreemption.New(s.ctx, args.Args, s.whole, gates)
		}
	}
	return defaultpreemption.New(s.ctx, nil, s.whole, gates) // says itself what it lacks
}

// preempt asks as `evaluate` in framework/preemption does, and stops where that would act: every node is tried
// whatever the number of candidates, budgets are asked in the order in which they were given, and nothing is done.
func (j *judge) preempt(pod *corev1.Pod, state *framework.CycleState) error {
	found := &preempting{Potential: newBitmap(len(j.nodes))}
	j.verdict.Preemption = found
	nominated := j.statuses.Get(pod.Status.NominatedNodeName)
	if ok, words := j.preemption.PodEligibleToPreemptOthers(j.ctx, pod, nominated); !ok {
		found.Ineligible = words
	}
	var potential []fwk.NodeInfo
	for index, name := range j.answer.Nodes {
		if j.statuses.Get(name).Code() == fwk.Unschedulable {
			found.Potential.set(index)
			potential = append(potential, j.nodes[index])
		}
	}
	if len(potential) == 0 {
		return nil
	}
	budgets := listed[policyv1.PodDisruptionBudget](j.found)
	candidates, _, err := j.preemption.Evaluator.DryRunPreemption(
		j.ctx, state, pod, potential, budgets, 0, int32(len(potential)),
	)
	if failed := j.panics.first(); failed != nil {
		return failed
	}
	if err != nil && len(candidates) == 0 {
		j.noteFailure(fwk.AsStatus(err))
	}
	victims := map[string]*extenderv1.Victims{}
	for _, one := range candidates {
		victims[one.Name()] = one.Victims()
	}
	for _, name := range j.answer.Nodes {
		if of, ok := victims[name]; ok {
			one := candidate{Node: name, Violations: of.NumPDBViolations}
			for _, victim := range of.Pods {
				one.Victims = append(one.Victims, fullName(victim))
			}
			found.Candidates = append(found.Candidates, one)
		}
	}
	if best := j.preemption.Evaluator.SelectCandidate(j.ctx, candidates); best != nil {
		found.Chosen = best.Name()
	}
	return nil
}
