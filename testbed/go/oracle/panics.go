package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const (
	framesKept = 8
	framesRead = 64
	framesTold = 3
	longestEnd = time.Second
)

// panicked is the answer to a case on which kube-scheduler would have crashed.
type panicked struct {
	Type    string   `json:"type"`
	Pod     string   `json:"pod"`
	At      string   `json:"at"`
	Message string   `json:"message"`
	Frames  []string `json:"frames"`
}

type panicError struct {
	message string
	frames  []string
}

func (p *panicError) Error() string {
	if len(p.frames) == 0 {
		return "panicked: " + p.message
	}
	return "panicked: " + p.message + " in " + strings.Join(p.frames[:min(framesTold, len(p.frames))], " of ")
}

func (p *panicError) answer(pod, at string) panicked {
	return panicked{"panicked", pod, at, p.message, p.frames}
}

// panicLog keeps the first panic since it was last asked. The framework runs some steps in goroutines of its own,
// where a panic ends kube-scheduler; here, the crash handler of Kubernetes takes note and goes on.
type panicLog struct {
	mutex      sync.Mutex
	kept       *panicError
	goroutines int // when no step runs
}

func watchPanics() *panicLog {
	log := &panicLog{}
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, recovered any) {
		log.keep(panicOf(recovered))
	}}
	return log
}

func (p *panicLog) keep(seen *panicError) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.kept == nil {
		p.kept = seen
	}
}

// begin is called before a pod is judged, when no step runs.
func (p *panicLog) begin() { p.goroutines = runtime.NumGoroutine() }

// first returns the panic that was kept, and forgets it. A goroutine of the framework says that it is done before
// it says that it panicked (ParallelizeUntil in client-go), so its very end is awaited.
func (p *panicLog) first() error {
	for deadline := time.Now().Add(longestEnd); runtime.NumGoroutine() > p.goroutines; {
		runtime.Gosched()
		if time.Now().After(deadline) {
			break
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.kept == nil {
		return nil
	}
	kept := p.kept
	p.kept = nil
	return kept
}

// caught is deferred: it makes a panic in the own goroutine an error.
func (p *panicLog) caught(err *error) {
	if recovered := recover(); recovered != nil {
		*err = panicOf(recovered)
		_ = p.first()
	}
}

// panicOf reads the stack inside a deferred function, where it still begins with the frames that panicked.
func panicOf(recovered any) *panicError {
	counters := make([]uintptr, framesRead)
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters)])
	seen := &panicError{message: fmt.Sprint(recovered)}
	hasPanicked := false
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "runtime.") {
			hasPanicked = true
		} else if hasPanicked && len(seen.frames) < framesKept {
			place := frame.File[strings.LastIndex(frame.File, "/")+1:]
			seen.frames = append(seen.frames, fmt.Sprintf("%s (%s:%d)", frame.Function, place, frame.Line))
		}
		if !more {
			return seen
		}
	}
}
