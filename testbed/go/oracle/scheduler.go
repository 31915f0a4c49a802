package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// scheduler is what kube-scheduler is made of, without its queue, its event handlers and its client: put together as
// `New` in pkg/scheduler/scheduler.go does it.
type scheduler struct {
	ctx      context.Context
	end      context.CancelFunc
	factory  *factory
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	// whole has the default profile; alone has, per plugin that can refuse, a framework with no other filter.
	whole     framework.Framework
	alone     []lonePlugin
	nominated nominated
	// preemption is the plugin of the whole profile that makes room.
	preemption *defaultpreemption.DefaultPreemption
}

// lonePlugin is a framework whose only plugin for PreFilter and Filter is the named one. A plugin that only gates
// pods has none.
type lonePlugin struct {
	name      string
	framework framework.Framework
}

func newScheduler() (*scheduler, error) {
	ctx, end := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	s := &scheduler{ctx: ctx, end: end, factory: newFactory(), snapshot: internalcache.NewEmptySnapshot()}
	metrics.Register()
	profile, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	s.cache = internalcache.New(ctx, nil, isOn(features.GenericWorkload), isOn(features.CompositePodGroup))
	options, err := s.frameworkOptions()
	if err != nil {
		return nil, err
	}
	registry := plugins.NewInTreeRegistry()
	s.whole, err = frameworkruntime.NewFramework(ctx, registry, profile, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot build the default profile: %w", err)
	}
	s.whole.SetPodNominator(&s.nominated)
	s.preemption, err = newPreemption(s, profile)
	if err != nil {
		return nil, fmt.Errorf("cannot build the plugin that preempts: %w", err)
	}
	enabled := s.whole.ListPlugins()
	for _, name := range refusing(enabled) {
		lone := lonePlugin{name: name}
		if alone := profileOf(profile, enabled, name); alone != nil {
			lone.framework, err = frameworkruntime.NewFramework(ctx, registry, alone, options...)
			if err != nil {
				return nil, fmt.Errorf("cannot build a profile of %s alone: %w", name, err)
			}
			lone.framework.SetPodNominator(&s.nominated)
		}
		s.alone = append(s.alone, lone)
	}
	return s, nil
}

func isOn(feature featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(feature) }

func defaultProfile() (*config.KubeSchedulerProfile, error) {
	var versioned configv1.KubeSchedulerConfiguration
	configscheme.Scheme.Default(&versioned)
	var internal config.KubeSchedulerConfiguration
	if err := configscheme.Scheme.Convert(&versioned, &internal, nil); err != nil {
		return nil, err
	}
	if len(internal.Profiles) != 1 {
		return nil, errors.New("the default configuration has not one profile")
	}
	return &internal.Profiles[0], nil
}

func (s *scheduler) frameworkOptions() ([]frameworkruntime.Option, error) {
	claims := assumecache.NewAssumeCache(
		logr.Discard(), s.factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil,
	)
	tracked := resourceslicetracker.Options{
		EnableDeviceTaintRules:   isOn(features.DRADeviceTaintRules),
		EnableConsumableCapacity: isOn(features.DRAConsumableCapacity),
		SliceInformer:            s.factory.Resource().V1().ResourceSlices(),
	}
	if tracked.EnableDeviceTaintRules {
		tracked.TaintInformer = s.factory.Resource().V1().DeviceTaintRules()
	}
	tracker, err := resourceslicetracker.StartTracker(s.ctx, tracked)
	if err != nil {
		return nil, fmt.Errorf("cannot follow resource slices: %w", err)
	}
	devices := dynamicresources.NewDRAManager(s.ctx, claims, tracker, s.factory)
	if byResource, ok := devices.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		if _, err := s.factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(byResource); err != nil {
			return nil, err
		}
	}
	return []frameworkruntime.Option{
		frameworkruntime.WithInformerFactory(s.factory),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(s.factory.Storage().V1().CSINodes().Lister()),
		),
		frameworkruntime.WithSnapshotSharedLister(s.snapshot),
		frameworkruntime.WithMutableSnapshotLister(s.snapshot),
		frameworkruntime.WithPodGroupManager(s.cache),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1000, time.Second, s.ctx.Done())),
		// A case is small: more goroutines cost more than they bring.
		frameworkruntime.WithParallelism(1),
	}, nil
}

// refusing are the plugins that can keep a pod from a node: those that only gate pods, then the filters, each in
// the order in which they are asked.
func refusing(enabled *config.Plugins) []string {
	var ordered []string
	for _, gate := range enabled.PreEnqueue.Enabled {
		if !has(enabled.PreFilter, gate.Name) && !has(enabled.Filter, gate.Name) {
			ordered = append(ordered, gate.Name)
		}
	}
	for _, filter := range enabled.Filter.Enabled {
		ordered = append(ordered, filter.Name)
	}
	for _, early := range enabled.PreFilter.Enabled {
		if !has(enabled.Filter, early.Name) {
			ordered = append(ordered, early.Name)
		}
	}
	return ordered
}

// profileOf is the default profile with one filter plugin left, and with the queue's order and the binder, which
// every profile must have; nil, if the plugin only gates pods.
func profileOf(profile *config.KubeSchedulerProfile, enabled *config.Plugins, name string) *config.KubeSchedulerProfile {
	plugins := &config.Plugins{QueueSort: only(names.PrioritySort), Bind: only(names.DefaultBinder)}
	if has(enabled.PreFilter, name) {
		plugins.PreFilter = only(name)
	}
	if has(enabled.Filter, name) {
		plugins.Filter = only(name)
	}
	if len(plugins.PreFilter.Enabled)+len(plugins.Filter.Enabled) == 0 {
		return nil
	}
	alone := *profile
	alone.Plugins = plugins
	alone.SchedulerName += "-" + name // some plugins put an index by this name on a shared informer
	return &alone
}

func has(set config.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Enabled, func(plugin config.Plugin) bool { return plugin.Name == name })
}

func only(name string) config.PluginSet {
	return config.PluginSet{Enabled: []config.Plugin{{Name: name}}}
}

// hold makes the cluster of a case the scheduler's, and returns what takes it away again.
func (s *scheduler) hold(found *objects) (forget func() error, err error) {
	logger := logr.Discard()
	if err := s.factory.fill(found); err != nil {
		return nil, err
	}
	s.nominated = nominated{}
	var bound []*corev1.Pod
	for _, node := range found.nodes {
		s.cache.AddNode(logger, node)
	}
	for _, pod := range found.pods {
		if pod.Spec.NodeName == "" {
			s.nominated.add(pod)
			continue
		}
		if err := s.cache.AddPod(logger, pod); err != nil {
			return nil, fmt.Errorf("Pod %s: %w", fullName(pod), err)
		}
		bound = append(bound, pod)
	}
	if err := s.cache.UpdateSnapshot(logger, s.snapshot); err != nil {
		return nil, err
	}
	return func() error {
		for _, pod := range bound {
			if err := s.cache.RemovePod(logger, pod); err != nil {
				return err
			}
		}
		for _, node := range found.nodes {
			if err := s.cache.RemoveNode(logger, node); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// nominated are the judged pods that wait for a node of their own after a preemption, by that node: the part of the
// scheduler's queue that filters look at.
type nominated struct {
	fwk.PodNominator
	byNode map[string][]fwk.PodInfo
}

func (n *nominated) add(pod *corev1.Pod) {
	if pod.Status.NominatedNodeName == "" {
		return
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return // as the queue: a pod with terms that nobody can parse is not nominated
	}
	if n.byNode == nil {
		n.byNode = map[string][]fwk.PodInfo{}
	}
	n.byNode[pod.Status.NominatedNodeName] = append(n.byNode[pod.Status.NominatedNodeName], info)
}

// NominatedPodsForNode is all of the interface that filters ask.
func (n *nominated) NominatedPodsForNode(node string) []fwk.PodInfo { return n.byNode[node] }
