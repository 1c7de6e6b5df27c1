package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// standIn serves the function in a runtime of the stand-in and returns its functions URL.
func standIn(t *testing.T, database string, kind edgeruntime.Kind) string {
	t.Helper()
	config := edgeruntime.DefaultFunction()
	config.Kind = kind
	config.WallClock = 0
	config.Heartbeat = edgeruntime.Millis(50 * time.Millisecond)
	server, err := edgeruntime.Start(edgeruntime.Options{DatabaseURL: database, Key: key,
		Functions: map[string]edgeruntime.FunctionConfig{function: config}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return server.Addresses().FunctionsURL()
}

func TestStandIn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	database, _ := migrated(t)
	endpoints := []string{standIn(t, database, edgeruntime.Participating), standIn(t, database, edgeruntime.Participating)}
	code, r, stderr := drive(t, database, endpoints)
	t.Log("\n" + r.table())
	g.Expect(code).To(Equal(exitPassed), stderr)
	g.Expect(r.Passed).To(Equal(len(cases())), "none is skipped")
}
