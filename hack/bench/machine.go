package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
)

// machine is what the figures depend on beside the code.
type machine struct {
	Cores             int    `json:"cores"`
	CPU               string `json:"cpu"`
	OS                string `json:"os"`
	Go                string `json:"go"`
	PostgreSQL        string `json:"postgresql"`
	Fsync             string `json:"fsync"`
	FullPageWrites    string `json:"fullPageWrites"`
	SynchronousCommit string `json:"synchronousCommit"`
}

func describeMachine(ctx context.Context, s *servers) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), CPU: cpuModel(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	ctx, cancel := context.WithTimeoutCause(ctx, databaseTimeout, fmt.Errorf("PostgreSQL did not answer within %v", databaseTimeout))
	defer cancel()
	connection, err := pgx.Connect(ctx, s.postgres.URL("postgres"))
	if err == nil {
		err = connection.QueryRow(ctx, settingsSQL).Scan(&m.PostgreSQL, &m.Fsync, &m.FullPageWrites, &m.SynchronousCommit)
		err = errors.Join(err, connection.Close(ctx))
	}
	if err != nil {
		return machine{}, fmt.Errorf("asking PostgreSQL for its settings: %w", errors.Join(context.Cause(ctx), err))
	}
	return m, nil
}

// cpuModel returns the name of the processor where Linux says it.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // elsewhere there is none
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadAverage returns that of the last minute where Linux says it, else an empty string.
func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg") // elsewhere there is none
	one, _, _ := strings.Cut(string(load), " ")
	return one
}
