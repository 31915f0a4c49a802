// Filter-oracle tells what kube-scheduler's own plugins say of a cluster: one JSON case per line in, one answer
// per line out. The protocol is described at its client, testbed/differential/oracle.py.
//
// It has no rule of its own. The API's scheme decodes, defaults and validates the objects; the scheduler's
// cache makes the snapshot; its framework runs the plugins of the default profile with the default feature
// gates. What is ours is only the way around the API server: informers that are filled by hand (informers.go),
// and two defaults that admission plugins would set (objects.go).
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

const (
	casesReadAhead    = 4 // the client sends the next case before it reads an answer: neither may wait for the other
	pipeBytes         = 1 << 20
	exitCodeOnFailure = 1
)

// request is one case. Kinds[i] is what Objects[i] is, `apiVersion/kind`, so that an object is parsed only once.
type request struct {
	Kinds       []string          `json:"kinds"`
	Objects     []json.RawMessage `json:"objects"`
	IsValidated bool              `json:"is_validated"`
	HasScores   bool              `json:"has_scores"`
	HasReasons  bool              `json:"has_reasons"`
	// HasPreemptions asks what preemption would do for each pod.
	HasPreemptions bool `json:"has_preemptions"`
}

type verdicts struct {
	Type    string                 `json:"type"`
	Nodes   []string               `json:"nodes"`
	Plugins []string               `json:"plugins"`
	Pods    map[string]*podVerdict `json:"pods"`
}

type podVerdict struct {
	Refused  map[string]bitmap  `json:"refused"`
	First    []byte             `json:"first"`
	Feasible bitmap             `json:"feasible"`
	Rejected []string           `json:"rejected,omitempty"`
	RuledOut map[string]bitmap  `json:"ruled_out,omitempty"`
	Total    []int64            `json:"total,omitempty"`
	Scores   map[string][]int64 `json:"scores,omitempty"`
	Unscored string             `json:"unscored,omitempty"`
	Failed   string             `json:"failed,omitempty"`
	Reasons  []refusal          `json:"reasons,omitempty"`
	// Preemption is missing when it was not asked for, and for pods for which it is never tried.
	Preemption *preempting `json:"preemption,omitempty"`
}

type refusal struct {
	Plugin string `json:"plugin"`
	Step   string `json:"step"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Nodes  bitmap `json:"nodes"`
}

type invalid struct {
	Type    string          `json:"type"`
	Objects []invalidObject `json:"objects"`
}

type invalidObject struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

// bitmap has bit i%8 of byte i/8 for node i.
type bitmap []byte

func newBitmap(count int) bitmap { return make(bitmap, (count+7)/8) }

func (b bitmap) set(index int) { b[index/8] |= 1 << (index % 8) }

func (b bitmap) has(index int) bool { return b[index/8]&(1<<(index%8)) != 0 }

func main() {
	klog.SetLogger(logr.Discard())
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "filter-oracle: %v\n", err)
		os.Exit(exitCodeOnFailure)
	}
}

func serve(in io.Reader, out io.Writer) error {
	oracle, err := newOracle()
	if err != nil {
		return err
	}
	lines := make(chan []byte, casesReadAhead)
	var failure error
	go func() {
		defer close(lines)
		failure = readLines(in, lines)
	}()
	writer := bufio.NewWriterSize(out, pipeBytes)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for line := range lines {
		answer, err := oracle.answer(line)
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer); err != nil {
			return fmt.Errorf("cannot write an answer: %w", err)
		}
		if err := writer.Flush(); err != nil {
			return fmt.Errorf("cannot write an answer: %w", err)
		}
	}
	return failure
}

func readLines(in io.Reader, lines chan<- []byte) error {
	reader := bufio.NewReaderSize(in, pipeBytes)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read a case: %w", err)
		}
		lines <- line
	}
}

func (o *oracle) answer(line []byte) (any, error) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, fmt.Errorf("a case is not what the protocol says: %w", err)
	}
	if len(asked.Kinds) != len(asked.Objects) {
		return nil, fmt.Errorf("a case has %d objects, and kinds of %d", len(asked.Objects), len(asked.Kinds))
	}
	found, refused := readObjects(asked.Kinds, asked.Objects, asked.IsValidated)
	if len(refused) > 0 {
		return invalid{Type: "invalid", Objects: refused}, nil
	}
	return o.judge(found, asked)
}
