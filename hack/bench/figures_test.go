package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

func TestMedianAndWorst(t *testing.T) {
	g := NewWithT(t)
	g.Expect(stopFiguresOf([]time.Duration{9, 1, 5})).To(Equal(stopFigures{Count: 3, Median: 5, Worst: 9}))
	g.Expect(stopFiguresOf([]time.Duration{9, 1, 5, 3})).To(Equal(stopFigures{Count: 4, Median: 4, Worst: 9}))
}

func TestRequestsAreCountedFromTheLossOn(t *testing.T) {
	g := NewWithT(t)
	var l log
	for _, r := range []struct {
		function string
		at       time.Duration
	}{{"a", 90}, {"a", 110}, {"b", 130}, {"a", 140}, {"b", 150}} {
		l.records = append(l.records, edgeruntime.RequestRecord{
			Function: r.function, Arrived: edgeruntime.Instant{Mono: r.at.Nanoseconds()}})
	}
	first, n := l.since(edgeruntime.Instant{Mono: 100})
	g.Expect(first).To(Equal(map[string]time.Duration{"a": 10, "b": 30}))
	g.Expect(lossFiguresOf(first, n)).To(Equal(lossFigures{Functions: 2, LastRequested: 30, Requests: 4}))
}

// A duplicate at any time and a function that was forgotten are no good run.
func TestOneRequestForEachFunctionIsChecked(t *testing.T) {
	g := NewWithT(t)
	for _, c := range []struct {
		loss lossFigures
		good bool
	}{
		{lossFigures{Functions: 3, Requests: 3}, true},
		{lossFigures{Functions: 3, Requests: 4}, false},
		{lossFigures{Functions: 3, Requests: 3, RequestsAfter: 1}, false},
		{lossFigures{Functions: 3, Requests: 2, RequestsAfter: 1}, false},
	} {
		err := report{Operator: figures{Loss: c.loss}}.check()
		g.Expect(err == nil).To(Equal(c.good), "%+v: %v", c.loss, err)
	}
}
