// Command edgeruntime runs the stand-in for the edge runtime as a process of its own; see package edgeruntime.
//
//	edgeruntime --config FILE|-
//
// FILE is JSON (edgeruntime.Options); `-` reads one JSON value from standard input. When it listens it prints its
// addresses as one line of JSON, {"gateway":"http://127.0.0.1:…","control":"http://127.0.0.1:…"}. It ends on SIGTERM
// and SIGINT, when a standard input that is a pipe closes, and when its parent has ended.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// parentCheck is how often the program looks whether its parent still lives.
const parentCheck = 500 * time.Millisecond

func main() {
	config := flag.String("config", "-", "file with the configuration as JSON, - for standard input")
	flag.Parse()
	if err := run(*config); err != nil {
		fmt.Fprintln(os.Stderr, "edgeruntime:", err)
		os.Exit(1)
	}
}

func run(config string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	parent := os.Getppid()

	options, rest, err := read(config)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	server, err := edgeruntime.Start(options)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(server.Addresses()); err != nil {
		return errors.Join(err, server.Close())
	}
	ctx, orphaned := context.WithCancel(ctx)
	defer orphaned()
	if isPipe(os.Stdin) {
		go func() {
			_, _ = io.Copy(io.Discard, rest) // until the other end closes
			orphaned()
		}()
	}
	ticker := time.NewTicker(parentCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return server.Close()
		case <-ticker.C:
			if os.Getppid() != parent {
				return server.Close()
			}
		}
	}
}

// read returns the options and what is left of standard input.
func read(config string) (options edgeruntime.Options, rest io.Reader, err error) {
	var source io.Reader = os.Stdin
	if config != "-" {
		file, err := os.Open(config)
		if err != nil {
			return options, nil, err
		}
		defer func() { _ = file.Close() }()
		source = file
	}
	decoder := json.NewDecoder(source)
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&options)
	return options, os.Stdin, err
}

// isPipe: somebody holds the other end, and its closing means something. A terminal or /dev/null does not.
func isPipe(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
