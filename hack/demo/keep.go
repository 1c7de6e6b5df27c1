package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
)

// supabaseWallClock is how long a runtime of a self-hosted Supabase lives.
const supabaseWallClock = time.Minute

// keep applies the samples and leaves everything running until the context ends, which is no failure.
func (w *world) keep(ctx context.Context) error {
	err := w.arrange(ctx)
	if err == nil {
		w.explain()
		select {
		case <-ctx.Done():
		case <-w.operator.ended:
			err = fmt.Errorf("%w (%s); its log ends:\n%s", errOperatorEnded, w.operator.outcome(), w.logTail())
		}
	}
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// arrange brings the world to the point where a person can play with it.
func (w *world) arrange(ctx context.Context) error {
	if err := w.prepare(ctx, supabaseWallClock); err != nil {
		return err
	}
	if err := w.actSamples(ctx, newLedger(w.n)); err != nil {
		return err
	}
	w.n.heading("And a function that boots slowly")
	if err := w.kubectl(ctx, "apply", "-f", slowManifest); err != nil {
		return err
	}
	return w.write("database-url", w.main.databaseURL)
}

// explain prints how to play.
func (w *world) explain() {
	psql := "psql"
	if _, err := exec.LookPath(psql); err != nil {
		if dir, err := postgres.FindBinaries(); err == nil {
			psql = filepath.Join(dir, psql)
		}
	}
	w.n.heading("Everything runs. In another terminal:")
	w.n.say("%s", strings.NewReplacer(
		"{assets}", w.kube.AssetsDir, "{kubeconfig}", w.kubeconfig(), "{log}", w.operatorLog(),
		"{psql}", psql, "{url}", w.file("database-url"),
		"{control}", w.main.runtime.Addresses.Control, "{hello}", hello, "{slow}", slowFunction,
	).Replace(playText))
}

const playText = `
  export KUBECONFIG={kubeconfig} PATH={assets}:$PATH
  CONTROL={control}

Look
  kubectl get wfn --watch                       # -o wide says more
  kubectl describe wfn {hello}
  kubectl get events
  tail -f {log}
  {psql} "$(cat {url})" -c 'TABLE pgflow.worker_function_states' -x
  {psql} "$(cat {url})" -c 'TABLE pgflow.workers'
  curl $CONTROL/control/requests                # everything that the operator sent
  curl $CONTROL/control/functions/{hello}      # its runtimes and workers

Let a worker end: one that says so is replaced at once, a killed one when its heartbeat is 30 s old
  curl -X POST $CONTROL/control/functions/{hello}/stop
  curl -X POST $CONTROL/control/functions/{hello}/kill

Let the next two starts fail, and end the worker
  curl -X PATCH $CONTROL/control/functions/{hello} -d '{"failStarts": 2}'
  curl -X POST $CONTROL/control/functions/{hello}/stop

Let a boot take 20 s, deliver every request twice, and end the worker
  curl -X PATCH $CONTROL/control/functions/{slow} -d '{"bootMs": 20000, "duplicates": 1}'
  curl -X POST $CONTROL/control/functions/{slow}/stop

Change the key that the functions expect, and end the worker: REASON says what is wrong until the operator is told
  curl -X PUT $CONTROL/control/key -d '{"key": "new"}'
  curl -X POST $CONTROL/control/functions/{hello}/stop
  kubectl patch secret ` + authSecret + ` -p '{"stringData": {"serviceKey": "new"}}'

Change what is wanted; change it behind the operator's back; start a function of your own, which boots for 2 s
  kubectl patch wfn {slow} --type merge -p '{"spec": {"debounce": "10s"}}'
  {psql} "$(cat {url})" -c "UPDATE pgflow.worker_functions SET debounce = '20 s' WHERE function_name = '{slow}'"
  echo '{"apiVersion": "workers.pgflow.dev/v1alpha1", "kind": "WorkerFunction", "metadata": {"name": "mine"}}' | kubectl apply -f -

Runtimes live for a minute, as they do by default: watch the workers being replaced. Ctrl-C ends everything.`
