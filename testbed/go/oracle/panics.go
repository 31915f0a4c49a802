package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const (
	framesKept = 8
	framesRead = 64
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
	return "panicked: " + p.message + " at " + p.frames[0]
}

func (p *panicError) answer(pod, at string) panicked {
	return panicked{"panicked", pod, at, p.message, p.frames}
}

// panicLog keeps the first panic since it was last asked. The framework runs some steps in goroutines of its own,
// where a panic ends kube-scheduler; here, the crash handler of Kubernetes takes note and goes on.
type panicLog struct {
	mutex sync.Mutex
	kept  *panicError
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

// first returns the panic that was kept, and forgets it.
func (p *panicLog) first() error {
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
