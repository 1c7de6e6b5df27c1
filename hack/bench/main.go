package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// runTimeout bounds the whole run.
const runTimeout = 4 * time.Minute

func main() {
	asJSON := flag.Bool("json", false, "print the figures as JSON instead of a table")
	flag.Parse()
	if err := run(*asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, fmt.Errorf("not done within %v", runTimeout))
	defer cancel()

	begun := time.Now()
	measured, err := measure(ctx, fullSize, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "==> %5.1f s  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	})
	if err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(measured)
	} else {
		err = measured.print(os.Stdout)
	}
	if err != nil {
		return err
	}
	return measured.check()
}
