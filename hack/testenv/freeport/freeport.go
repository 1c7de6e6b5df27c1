// Package freeport finds ports for servers that clients dial while they are down.
//
// The ports lie outside the range from which the kernel gives ports to outgoing connections. A client that keeps dialling
// a stopped server can therefore neither take its port nor connect to itself, and the server can come back.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports below 32768 are not given to outgoing connections by Linux (ip_local_port_range) nor by macOS.
const (
	firstPort = 20000
	lastPort  = 32767
)

// host is where all servers of the test environment listen.
const host = "127.0.0.1"

// Find returns a port of 127.0.0.1 that nobody listens on at the moment. Somebody may take it before the caller
// does; who starts a server on it must be ready to ask for another.
func Find(ctx context.Context) (int, error) {
	var failures []error
	for range 50 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("closing the probe of port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, errors.Join(failures...))
}
