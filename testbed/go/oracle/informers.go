package main

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
)

// factory hands the plugins the informers of client-go, which we never start but fill by hand, between one case
// and the next. So a case needs no API server, no goroutine and no wait, and the plugins, which keep the
// listers that they got when they were made, live as long as the program.
type factory struct {
	informers.SharedInformerFactory
	tables map[reflect.Type]*table
}

func newFactory() *factory {
	return &factory{
		SharedInformerFactory: informers.NewSharedInformerFactory(nil, 0),
		tables:                map[reflect.Type]*table{},
	}
}

// InformerFor is what the typed informers below ask for theirs.
func (f *factory) InformerFor(obj runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	is := reflect.TypeOf(obj)
	if found, ok := f.tables[is]; ok {
		return found
	}
	made := &table{SharedIndexInformer: make(nil, 0)}
	f.tables[is] = made
	return made
}

// The groups of the kinds that plugins list. They must be made of this factory, not of the one inside.

func (f *factory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *factory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *factory) Storage() storage.Interface       { return storage.New(f, "", nil) }
func (f *factory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *factory) Policy() policy.Interface         { return policy.New(f, "", nil) }
func (f *factory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }

// fill makes every table hold what the case holds, and nothing else.
func (f *factory) fill(found *objects) error {
	for is, table := range f.tables {
		if err := table.replace(found.byType[is]); err != nil {
			return err
		}
	}
	return nil
}

// table is an informer whose store we fill; it tells its handlers before `replace` returns.
type table struct {
	cache.SharedIndexInformer
	held     []any
	handlers []cache.ResourceEventHandler
}

func (t *table) replace(objects []any) error {
	if len(objects) == 0 && len(t.held) == 0 {
		return nil
	}
	if err := t.GetIndexer().Replace(objects, ""); err != nil {
		return err
	}
	for _, handler := range t.handlers {
		for _, old := range t.held {
			handler.OnDelete(old)
		}
		for _, object := range objects {
			handler.OnAdd(object, false)
		}
	}
	t.held = objects
	return nil
}

func (t *table) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	t.handlers = append(t.handlers, handler)
	return synced{}, nil
}

func (t *table) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return t.AddEventHandler(handler)
}

func (t *table) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return t.AddEventHandler(handler)
}

func (t *table) HasSynced() bool { return true }

func (t *table) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is the registration of a handler that has been told all there is.
type synced struct{}

var closedChannel = sync.OnceValue(func() chan struct{} {
	made := make(chan struct{})
	close(made)
	return made
})

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "filled by hand" }
func (synced) Done() <-chan struct{}               { return closedChannel() }
