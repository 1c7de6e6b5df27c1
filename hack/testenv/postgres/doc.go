// Package postgres runs private PostgreSQL servers for tests, the demo and the benchmark.
//
// It owns a cluster from initdb to the removal of its directory. What holds for every cluster:
//
//   - It is never a server that was running already: a new data directory, a free port on 127.0.0.1, a random
//     password, a socket directory of its own.
//   - It runs as an unprivileged user when the caller is root, because PostgreSQL refuses to run as root.
//   - Nothing stays behind. Stop removes server and directory; when the caller dies without it, package guardian does.
//   - Commits survive the end of the server process but not of the machine: fsync is off.
//
// It works on Linux and macOS.
package postgres
