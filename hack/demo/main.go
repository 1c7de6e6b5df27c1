package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errInterrupted: a person or a signal ended the demo.
var errInterrupted = errors.New("interrupted")

const exitInterrupted = 130

func main() {
	// envtest complains where there is none.
	log.SetLogger(logr.Discard())
	keep := flag.Bool("keep", false, "leave everything running, to play with, until Ctrl-C")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "no arguments are taken but --keep")
		os.Exit(2)
	}
	err := run(*keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
	}
	switch {
	case err == nil:
	case errors.Is(err, errInterrupted):
		os.Exit(exitInterrupted)
	default:
		os.Exit(1)
	}
}

// run plays the demo, or keeps it running, and returns when everything has ended and is removed.
func run(keep bool) (err error) {
	n := newNarrator(os.Stdout)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		// A second one ends this process at once; then the guardians clean up.
		signal.Reset()
		cancel(errInterrupted)
		n.say("\nEnding everything …")
	}()

	w, err := newWorld(n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	if keep {
		return w.keep(ctx)
	}
	return w.play(ctx)
}
