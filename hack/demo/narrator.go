package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// narrator prints what a person reads. Secrets that it was told about never come out of it. It is safe for
// concurrent use.
type narrator struct {
	mu      sync.Mutex
	out     io.Writer
	colours bool
	begun   time.Time
	secrets []string
}

func newNarrator(out *os.File) *narrator {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &narrator{out: out, colours: terminal && os.Getenv("NO_COLOR") == "", begun: time.Now()}
}

const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
)

// hide replaces a secret by … in all that is printed from now on.
func (n *narrator) hide(secret string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.secrets = append(n.secrets, secret)
}

// heading begins an act, with the time since the demo's begin.
func (n *narrator) heading(title string) {
	n.print("\n", bold, fmt.Sprintf("%s  (%.0f s)", title, time.Since(n.begun).Seconds()))
}

// say prints what is going on.
func (n *narrator) say(format string, args ...any) {
	n.print("", "", fmt.Sprintf(format, args...))
}

// command prints a command line that is about to run; a long one with an argument a line.
func (n *narrator) command(line ...string) {
	text := strings.Join(line, " ")
	if len(text) > 160 {
		text = strings.Join(line, " \\\n    ")
	}
	n.print("", bold, "$ "+text)
}

// output prints what a command wrote.
func (n *narrator) output(text string) {
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		n.print("  ", "", strings.TrimRight(line, " \n"))
	}
}

// aside prints what is only of interest where something takes long.
func (n *narrator) aside(format string, args ...any) {
	n.print("", faint, fmt.Sprintf(format, args...))
}

// during says every 30 s how long something takes, until the returned function is called.
func (n *narrator) during(what string) (done func()) {
	begun := time.Now()
	ticker := time.NewTicker(30 * time.Second)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				n.aside("%s: %.0f s so far", what, time.Since(begun).Seconds())
			case <-ended:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(ended) }
}

// verdict prints a thing that was to be seen, and whether it was.
func (n *narrator) verdict(seen bool, text string) {
	if seen {
		n.print("  ", green, "✓ "+text)
		return
	}
	n.print("  ", red, "✗ "+text)
}

func (n *narrator) print(before, colour, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, secret := range n.secrets {
		text = strings.ReplaceAll(text, secret, "…")
	}
	if n.colours && colour != "" {
		text = "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	_, _ = fmt.Fprintln(n.out, before+text) // nobody is left to be told
}
