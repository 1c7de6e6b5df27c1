package delivery

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// BenchmarkInFlight holds 1,000 requests open at once and reports what they
// cost this process, the server's side included.
func BenchmarkInFlight(b *testing.B) {
	const functions = 1000
	for b.Loop() {
		var arrived, sent, ended sync.WaitGroup
		free := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			arrived.Done()
			<-free
		}))
		d := New(Options{})
		ctx, cancel := context.WithCancel(b.Context())
		ended.Go(func() { _ = d.Start(ctx) })
		before := usage()
		arrived.Add(functions)
		sent.Add(functions)
		for i := range functions {
			req := request(server.URL)
			req.Function, req.InvocationID = "f"+strconv.Itoa(i), uuid.New()
			req.Done = func(Result) { sent.Done() }
			d.Deliver(req.Request)
		}
		arrived.Wait()
		after := usage()
		b.ReportMetric(float64(after.goroutines-before.goroutines)/functions, "goroutines/request")
		b.ReportMetric(float64(after.bytes-before.bytes)/functions/1024, "KiB/request")
		close(free)
		sent.Wait()
		cancel()
		ended.Wait()
		server.Close()
	}
}

type used struct {
	goroutines int
	bytes      int64
}

func usage() used {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{goroutines: runtime.NumGoroutine(), bytes: int64(m.HeapInuse + m.StackInuse)}
}
