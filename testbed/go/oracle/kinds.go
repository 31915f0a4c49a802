package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
)

// kind is one kind of object that a plugin looks at, and what the API server does when one is created.
type kind struct {
	name         string
	version      schema.GroupVersion
	isNamespaced bool
	create       rest.RESTCreateStrategy
	// status is set for kinds whose status a plugin looks at: creation drops it, so it is validated apart.
	status rest.RESTUpdateStrategy
}

var (
	kinds       = map[string]*kind{}
	kindsByName = map[string]*kind{}
)

func init() {
	core, apps, storage := "v1", "apps/v1", "storage.k8s.io/v1"
	resource := "resource.k8s.io/v1"
	known(core, "Node", node.Strategy, node.StatusStrategy)
	known(core, "Pod", pod.Strategy, pod.StatusStrategy)
	known(core, "Namespace", namespace.Strategy, nil)
	known(core, "PersistentVolume", persistentvolume.Strategy, persistentvolume.StatusStrategy)
	known(core, "PersistentVolumeClaim", persistentvolumeclaim.Strategy, persistentvolumeclaim.StatusStrategy)
	known(core, "Service", service.Strategy, nil)
	known(core, "ReplicationController", replicationcontroller.Strategy, nil)
	known(apps, "ReplicaSet", replicaset.Strategy, nil)
	known(apps, "StatefulSet", statefulset.Strategy, nil)
	known(storage, "StorageClass", storageclass.Strategy, nil)
	known(storage, "CSINode", csinode.Strategy, nil)
	known(storage, "CSIDriver", csidriver.Strategy, nil)
	known(storage, "CSIStorageCapacity", csistoragecapacity.Strategy, nil)
	known(storage, "VolumeAttachment", volumeattachment.Strategy, nil)
	known("scheduling.k8s.io/v1", "PriorityClass", priorityclass.Strategy, nil)
	known("policy/v1", "PodDisruptionBudget", poddisruptionbudget.Strategy, poddisruptionbudget.StatusStrategy)
	// Without clients: they are asked only of claims that want administrator access.
	known(resource, "ResourceClaim", resourceclaim.NewStrategy(nil, nil), nil)
	known(resource, "ResourceSlice", resourceslice.Strategy, nil)
	known(resource, "DeviceClass", deviceclass.Strategy, nil)
}

func known(version, name string, create rest.RESTCreateStrategy, status rest.RESTUpdateStrategy) {
	parsed, err := schema.ParseGroupVersion(version)
	if err != nil {
		panic(err)
	}
	made := &kind{name, parsed, create.NamespaceScoped(), create, status}
	kinds[version+"/"+name] = made
	kindsByName[name] = made
}

// empty is a new object of the kind, as the API's scheme makes it.
func (k *kind) empty() runtime.Object {
	made, err := legacyscheme.Scheme.New(k.version.WithKind(k.name))
	if err != nil {
		panic(err) // the scheme has all kinds of the table above, or no case can be answered
	}
	return made
}

// kindOf finds a kind by `apiVersion/kind`; the version may be missing, as in `/Pod`. Nil: no plugin looks at it.
func kindOf(name string) *kind {
	if found, ok := kinds[name]; ok {
		return found
	}
	return kindsByName[strings.TrimPrefix(name, "/")]
}

// validate tells which objects the API server would not have let in.
func validate(found *objects) []invalidObject {
	var refused []invalidObject
	for _, object := range found.all {
		kind := kindsByName[reflect.TypeOf(object).Elem().Name()]
		if err := kind.validate(object); err != nil {
			accessor, _ := meta.Accessor(object)
			refused = append(refused, invalidObject{kind.name, fullName(accessor), err.Error()})
		}
	}
	return refused
}

// validate creates the object as far as the API server does before it writes it down, on a copy: creating also
// drops the status. A pod's spec is taken from there: creating merges label keys into selectors, completes what
// the pod as a whole requests, and drops the fields of features that are off.
func (k *kind) validate(object runtime.Object) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("its validation panicked: %v", recovered)
		}
	}()
	internal := schema.GroupVersion{Group: k.version.Group, Version: runtime.APIVersionInternal}
	made, err := legacyscheme.Scheme.ConvertToVersion(object.DeepCopyObject(), internal)
	if err != nil {
		return err
	}
	accessor, err := meta.Accessor(made)
	if err != nil {
		return err
	}
	if k.status != nil {
		ctx := k.requestOf("update", "status", accessor.GetNamespace())
		if errs := k.status.ValidateUpdate(ctx, made, made); len(errs) > 0 {
			return errs.ToAggregate()
		}
	}
	uid := accessor.GetUID()
	rest.FillObjectMetaSystemFields(accessor)
	accessor.SetUID(uid)
	accessor.SetResourceVersion("")
	err = rest.BeforeCreate(k.create, k.requestOf("create", "", accessor.GetNamespace()), made)
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil && len(status.ErrStatus.Details.Causes) > 0 {
		cause := status.ErrStatus.Details.Causes[0]
		return fmt.Errorf("%s: %s", cause.Field, cause.Message)
	}
	if pod, isPod := object.(*corev1.Pod); isPod && err == nil {
		var stored corev1.Pod
		if err = legacyscheme.Scheme.Convert(made, &stored, nil); err == nil {
			pod.Spec = stored.Spec
		}
	}
	return err
}

// requestOf is what the API server knows of the request; its declarative validation asks for it.
func (k *kind) requestOf(verb, subresource, namespace string) context.Context {
	resource, _ := meta.UnsafeGuessKindToResource(k.version.WithKind(k.name))
	return genericapirequest.WithRequestInfo(
		genericapirequest.WithNamespace(context.Background(), namespace),
		&genericapirequest.RequestInfo{
			IsResourceRequest: true,
			Verb:              verb,
			APIGroup:          k.version.Group,
			APIVersion:        k.version.Version,
			Resource:          resource.Resource,
			Subresource:       subresource,
			Namespace:         namespace,
		},
	)
}
