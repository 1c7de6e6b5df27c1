package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/freeport"
)

func TestFoundPortIsFreeAndNeverGivenToOutgoingConnections(t *testing.T) {
	t.Parallel()
	for range 20 {
		port, err := freeport.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if port >= 32768 || port < 1024 {
			t.Errorf("port %d is in the kernel's range or privileged", port)
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("port %d is not free: %v", port, err)
		}
		defer listener.Close()
	}
}
