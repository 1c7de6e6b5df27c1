package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"
)

// keyVariable is where the key may be, instead of a file: not in the arguments, which everybody on the machine can read.
const keyVariable = "PGFLOW_AUTH_SECRET"

// databaseVariable is where the database's URL may be.
const databaseVariable = "DATABASE_URL"

// options of a run, checked.
type options struct {
	endpoints   []*url.URL // one or two
	key         string
	function    string
	databaseURL string
	timeout     time.Duration // of each case
	force       bool
	json        bool
}

const usage = `Drives a running worker function through every case of the start-up handshake and says which it gets wrong.

  conformance --endpoint URL [--endpoint URL] --key-file FILE --function NAME --database-url URL

`

const usageStates = `
The worker needs no test hooks. The states that cases want it in are brought about from the database: a slow boot, two
runtimes that race and a lock timeout by holding the registration's lock (for up to 3 s that of all registrations of the
database); a lost answer by terminating the session in which the worker waits; a failing start and a loop too busy to beat by temporary triggers on pgflow.workers; the end of a
worker by its row. So --database-url must name the owner of pgflow.workers, who may see and end the worker's sessions, and
lead to PostgreSQL itself, not to a transaction pooler. Duplicate delivery to two runtimes needs a second runtime of the
function, --endpoint given twice. Cases that cannot be driven are shown as skipped, with the reason.

Nobody else may start the function meanwhile: suspend its operator and its cron job. Everything is restored at the end.

Exit codes: 0 no case failed, 1 at least one did, 2 the cases could not be run.
`

// parseOptions reads the arguments and the environment; flag.ErrHelp when help was asked for and printed.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var keyFile string
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
		fmt.Fprint(stderr, usageStates)
	}
	flags.Func("endpoint", "functions `URL` of a runtime, to which the function's name is added; twice for two runtimes",
		func(text string) error {
			endpoint, err := url.Parse(text)
			if err != nil || endpoint.Host == "" || (endpoint.Scheme != "http" && endpoint.Scheme != "https") {
				return errors.New("not an http or https URL")
			}
			o.endpoints = append(o.endpoints, endpoint)
			return nil
		})
	flags.StringVar(&keyFile, "key-file", "", "`file` with the key that the worker expects (default: the environment's "+
		keyVariable+")")
	flags.StringVar(&o.function, "function", "", "`name` of the worker function")
	flags.StringVar(&o.databaseURL, "database-url", "", "`URL` of its database (default: the environment's "+databaseVariable+")")
	flags.DurationVar(&o.timeout, "timeout", 20*time.Second, "longest time of a case: some boot a worker four times")
	flags.BoolVar(&o.force, "force", false, "end a worker that runs and an invocation that is pending, instead of refusing")
	flags.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("what is %q for? Everything is given by flags", flags.Arg(0))
	}
	// Read here, so that neither is printed as a flag's default.
	o.key = os.Getenv(keyVariable)
	if o.databaseURL == "" {
		o.databaseURL = os.Getenv(databaseVariable)
	}
	if keyFile != "" {
		content, err := os.ReadFile(keyFile)
		if err != nil {
			return options{}, fmt.Errorf("--key-file: %w", err)
		}
		o.key = string(bytes.TrimSpace(content))
	}
	return o, o.check()
}

func (o options) check() error {
	var problems []error
	complain := func(ok bool, problem string) {
		if !ok {
			problems = append(problems, errors.New(problem))
		}
	}
	complain(len(o.endpoints) == 1 || len(o.endpoints) == 2, "--endpoint is needed once, or twice for two runtimes")
	complain(o.key != "", "--key-file (or "+keyVariable+") is needed")
	complain(o.function != "", "--function is needed")
	complain(o.databaseURL != "", "--database-url (or "+databaseVariable+") is needed")
	complain(o.timeout >= 8*time.Second, "--timeout is below 8 s, which a lock timeout alone takes")
	return errors.Join(problems...)
}
