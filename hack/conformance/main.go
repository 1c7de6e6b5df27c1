package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitPassed = 0
	exitFailed = 1
	exitNotRun = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command runs the program and returns its exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if err == flag.ErrHelp { //nolint:errorlint // as package flag returns it
		return exitPassed
	}
	if err == nil {
		var r report
		if r, err = run(ctx, o, cases()); err == nil {
			err = r.write(stdout, o.json)
		}
		if err == nil && r.Failed > 0 {
			return exitFailed
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "conformance:", err)
		return exitNotRun
	}
	return exitPassed
}
