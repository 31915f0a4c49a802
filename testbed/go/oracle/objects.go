package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	schedulingdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	kjson "sigs.k8s.io/json"
)

const defaultNamespace = "default"

// objects are those of one case, in the order in which they were given, by their Go type.
type objects struct {
	all    []runtime.Object
	byType map[reflect.Type][]any
	nodes  []*corev1.Node
	pods   []*corev1.Pod
}

func (o *objects) add(object runtime.Object) {
	o.all = append(o.all, object)
	is := reflect.TypeOf(object)
	o.byType[is] = append(o.byType[is], object)
	switch typed := object.(type) {
	case *corev1.Node:
		o.nodes = append(o.nodes, typed)
	case *corev1.Pod:
		o.pods = append(o.pods, typed)
	}
}

// listed are all objects of one type.
func listed[T any](o *objects) []*T {
	found := o.byType[reflect.TypeFor[*T]()]
	typed := make([]*T, len(found))
	for index, object := range found {
		typed[index] = object.(*T)
	}
	return typed
}

// readObjects decodes objects and sets what is set of every object that an API server holds. Objects of a kind
// that no plugin looks at are left out.
func readObjects(kindNames []string, raw []json.RawMessage, isValidated bool) (*objects, []invalidObject) {
	found := &objects{byType: map[reflect.Type][]any{}}
	var refused []invalidObject
	namespaces := map[string]bool{}
	owners := map[string]string{} // of names and of uids
	for index, text := range raw {
		kind := kindOf(kindNames[index])
		if kind == nil {
			continue
		}
		object := kind.empty()
		accessor, _ := meta.Accessor(object)
		err := decode(text, object, isValidated)
		if kind.isNamespaced && accessor.GetNamespace() == "" {
			accessor.SetNamespace(defaultNamespace)
		}
		if err == nil {
			complete(kind, object, accessor)
			err = claim(owners, kind, accessor)
		}
		if err != nil {
			refused = append(refused, invalidObject{kind.name, fullName(accessor), err.Error()})
			continue
		}
		if isEnded(object) {
			continue
		}
		if kind.name == "Namespace" {
			namespaces[accessor.GetName()] = true
		}
		found.add(object)
	}
	addNamespaces(found, namespaces)
	refused = append(refused, admit(found)...)
	if isValidated {
		refused = append(refused, validate(found)...)
	}
	return found, refused
}

// decode reads an object as the API server does; validated, a field that it does not know is an error.
func decode(text []byte, object runtime.Object, isValidated bool) error {
	if !isValidated {
		return kjson.UnmarshalCaseSensitivePreserveInts(text, object)
	}
	unknown, err := kjson.UnmarshalStrict(text, object)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	return err
}

// complete sets the API's defaults, and the metadata without which the scheduler's cache takes no object.
func complete(kind *kind, object runtime.Object, accessor metav1.Object) {
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(kind.name + "/" + fullName(accessor)))
	}
	if accessor.GetResourceVersion() == "" {
		accessor.SetResourceVersion("1")
	}
	legacyscheme.Scheme.Default(object)
}

func fullName(accessor metav1.Object) string {
	if accessor.GetNamespace() == "" {
		return accessor.GetName()
	}
	return accessor.GetNamespace() + "/" + accessor.GetName()
}

// claim takes the name and the uid of an object for it: neither may be another's.
func claim(owners map[string]string, kind *kind, accessor metav1.Object) error {
	name, uid := kind.name+" "+fullName(accessor), "uid "+string(accessor.GetUID())
	if _, ok := owners[name]; ok {
		return errors.New("occurs twice")
	}
	if other, ok := owners[uid]; ok {
		return fmt.Errorf("has the %s of %s", uid, other)
	}
	owners[name], owners[uid] = name, name
	return nil
}

// isEnded tells of the pods that the scheduler's informer leaves out (NewInformerFactory in scheduler.go).
func isEnded(object runtime.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

func addNamespaces(found *objects, known map[string]bool) {
	known[""] = true // of objects that are in none
	missing := []string{defaultNamespace}
	for _, object := range found.all {
		accessor, _ := meta.Accessor(object)
		missing = append(missing, accessor.GetNamespace())
	}
	for _, name := range missing {
		if !known[name] {
			known[name] = true
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			complete(kindOf("v1/Namespace"), namespace, namespace)
			found.add(namespace)
		}
	}
}

// admit does what the admission plugins Priority and DefaultStorageClass do and a scheduler can see. A claim that
// has a volume keeps having no class: it was made before there was a default (the retroactive rule of the
// volume controller, which is for unbound claims).
func admit(found *objects) []invalidObject {
	var refused []invalidObject
	values := map[string]int32{}
	for _, class := range schedulingdefaults.SystemPriorityClasses() {
		values[class.Name] = class.Value
	}
	var fallback *schedulingv1.PriorityClass
	for _, class := range listed[schedulingv1.PriorityClass](found) {
		values[class.Name] = class.Value
		if class.GlobalDefault && (fallback == nil || class.Value < fallback.Value) {
			fallback = class
		}
	}
	for _, pod := range found.pods {
		if pod.Spec.Priority != nil {
			continue
		}
		var value int32
		if name := pod.Spec.PriorityClassName; name != "" {
			known := false
			if value, known = values[name]; !known {
				message := fmt.Sprintf("no PriorityClass with name %v was found", name)
				refused = append(refused, invalidObject{"Pod", fullName(pod), message})
			}
		} else if fallback != nil {
			value = fallback.Value
		}
		pod.Spec.Priority = &value
	}
	claims := listed[corev1.PersistentVolumeClaim](found)
	if len(claims) == 0 {
		return refused
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	_ = indexer.Replace(found.byType[reflect.TypeFor[*storagev1.StorageClass]()], "")
	class, _ := volumeutil.GetDefaultClass(storagelisters.NewStorageClassLister(indexer))
	for _, claim := range claims {
		if class != nil && claim.Spec.VolumeName == "" && !storagehelpers.PersistentVolumeClaimHasClass(claim) {
			claim.Spec.StorageClassName = &class.Name
		}
	}
	return refused
}
