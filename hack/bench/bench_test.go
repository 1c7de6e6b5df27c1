package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// The whole benchmark, with few functions: figures come out, and the operator sends one request for each function. No
// time is judged.
func TestBenchmarkYieldsFigures(t *testing.T) {
	g := NewWithT(t)
	n := size{Functions: 10, Stops: 5, Pause: 50 * time.Millisecond, Debounce: time.Second, Hang: 2 * time.Second}

	measured, err := measure(t.Context(), n, t.Logf)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(measured.check()).To(Succeed())
	g.Expect(measured.Operator.Loss.Requests).To(Equal(n.Functions), "requests of the operator")
	g.Expect(measured.Operator.Loss.Workers).To(Equal(n.Functions), "workers that the operator's requests led to")
	for side, f := range map[string]figures{"operator": measured.Operator, "old tick": measured.OldTick} {
		g.Expect(f.Stops.Count).To(Equal(n.Stops), side)
		g.Expect(f.Stops.Median).To(BeNumerically(">", 0), side)
		g.Expect(f.Stops.Worst).To(BeNumerically(">=", f.Stops.Median), side)
		g.Expect(f.Loss.Functions).To(Equal(n.Functions), side)
		g.Expect(f.Loss.Requests).To(BeNumerically(">=", n.Functions), side)
		g.Expect(f.Loss.LastRequested).To(BeNumerically(">", 0), side)
	}
	g.Expect(measured.Machine.Fsync).To(Equal("on"))

	var table, encoded bytes.Buffer
	g.Expect(measured.print(&table)).To(Succeed())
	t.Logf("\n%s", table.String())
	g.Expect(table.String()).To(ContainSubstring("median of 5"))
	g.Expect(json.NewEncoder(&encoded).Encode(measured)).To(Succeed())
	g.Expect(encoded.String()).To(MatchRegexp(`"medianMs":[0-9.]+`))
}
