// Package oldtick re-implements what pgflow's own ensure_workers() does in a cron job, to show beside the operator what
// it replaces: in tests, the demo and benchmarks. It is written from a description of its behaviour alone.
//
// A tick takes every enabled http function that was not invoked within its debounce and has no worker with a heartbeat
// younger than the debounce, sets last_invoked_at, and queues a request for each. The requests are sent as pg_net
// sends them: after the tick has committed, in the background, at most 200 in a batch, each batch waiting for its
// slowest. Nobody looks at the answers.
//
// What it keeps is last_invoked_at: when a request was sent, not whether its start is still pending. Hence a start
// slower than the debounce is started again, and two workers result. Nothing here is to be used for anything but
// showing that.
package oldtick
