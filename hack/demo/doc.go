// Command demo shows the operator at work, on this machine and with nothing of it faked but the edge runtime: a
// kube-apiserver with its etcd, a PostgreSQL, the operator with the permissions of config/rbac and the stand-in for
// the edge runtime, each a process of its own.
//
//	go run ./hack/demo            plays four acts, says what was seen and ends
//	go run ./hack/demo --keep     applies the samples, says how to play with them and runs until Ctrl-C
//
// It owns everything from the servers' start to their end. What holds:
//
//   - Every line of the summary is checked against what others recorded: the stand-in's log of requests, PostgreSQL's
//     rows, and every version of every object that the API server sent out. What the operator says about itself
//     proves nothing. The exit code is 0 only when everything was seen.
//   - Everything listens on 127.0.0.1, on ports that are free; any number of demos may run at once.
//   - Nothing stays behind: servers are ended in the reverse order of their start on every way out, Ctrl-C included;
//     package guardian does it when this process dies without doing so. All files are below os.TempDir, kubectl's
//     too.
//   - Every wait has a deadline that its error names, and ends at once when the operator does.
//
// Exit codes: 0, everything was seen (or --keep was ended by Ctrl-C); 1, something was not; 130, ended by a signal.
package main
