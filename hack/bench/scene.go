package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

const (
	settleTimeout = 90 * time.Second
	settlePoll    = 250 * time.Millisecond
	// runtimePool is the number of connections of all workers of a side together.
	runtimePool = 16
)

// scene is one side's database and stand-in, with all functions registered.
type scene struct {
	size        size
	names       []string
	databaseURL string
	pool        *pgxpool.Pool
	runtime     *edgeruntime.Process
	client      *edgeruntime.Client
	// key is what the stand-in wants.
	key string
	// healthy is the configuration of a function that boots at once.
	healthy edgeruntime.FunctionConfig
	log     log
}

// newScene makes a database of that name with its stand-in. The caller calls close.
func newScene(ctx context.Context, s *servers, database string, kind edgeruntime.Kind, n size) (*scene, error) {
	c := &scene{size: n, key: rand.Text(), healthy: edgeruntime.DefaultFunction()}
	c.healthy.Kind, c.healthy.WallClock = kind, 0
	c.healthy.Heartbeat = edgeruntime.Millis(n.Debounce / 3)
	for i := range n.Functions {
		c.names = append(c.names, fmt.Sprintf("function-%05d", i))
	}
	if err := c.open(ctx, s, database); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *scene) open(ctx context.Context, s *servers, database string) (err error) {
	if c.databaseURL, err = s.postgres.CreateDatabase(ctx, database); err != nil {
		return err
	}
	if _, err := pgstate.Migrate(ctx, c.databaseURL, pgstate.MigrateOptions{CreateBaseTables: true}); err != nil {
		return err
	}
	if c.pool, err = pgxpool.New(ctx, c.databaseURL); err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, registerSQL, c.names, c.size.Debounce); err != nil {
		return fmt.Errorf("registering functions: %w", err)
	}
	c.runtime, err = edgeruntime.StartProcess(ctx, s.program("edgeruntime"), edgeruntime.Options{
		DatabaseURL:     c.databaseURL,
		Key:             c.key,
		PoolSize:        runtimePool,
		BatchHeartbeats: true,
	}, os.Stderr)
	if err != nil {
		return err
	}
	c.client = c.runtime.Client()
	c.log.client = c.client
	return c.configureAll(ctx, c.healthy)
}

// configureAll gives all functions one configuration.
func (c *scene) configureAll(ctx context.Context, config edgeruntime.FunctionConfig) error {
	configs := make(map[string]edgeruntime.FunctionConfig, len(c.names))
	for _, name := range c.names {
		configs[name] = config
	}
	return c.client.ConfigureAll(ctx, configs)
}

// settle waits until every function has a worker and is past its debounce, so that nothing but the loss of its worker
// keeps it from being requested again.
func (c *scene) settle(ctx context.Context) error {
	return await(ctx, settleTimeout, settlePoll, func(ctx context.Context) (string, error) {
		unsettled, err := c.count(ctx, unsettledSQL)
		if unsettled == 0 {
			return "", err
		}
		return fmt.Sprintf("%d of %d functions to have a worker and be past their debounce", unsettled, len(c.names)), err
	})
}

// count runs a statement that returns a number.
func (c *scene) count(ctx context.Context, sql string) (n int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, databaseTimeout, fmt.Errorf("PostgreSQL did not answer within %v", databaseTimeout))
	defer cancel()
	if err := c.pool.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, errors.Join(context.Cause(ctx), err)
	}
	return n, nil
}

// close ends the stand-in, then the pool.
func (c *scene) close() (err error) {
	if c.runtime != nil {
		err = c.runtime.Stop()
	}
	if c.pool != nil {
		c.pool.Close()
	}
	return err
}

// await polls until nothing is missing: until look returns an empty string, which says what is being waited for.
func await(ctx context.Context, timeout, interval time.Duration, look func(context.Context) (string, error)) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for {
		missing, err := look(ctx)
		if err != nil || missing == "" {
			return err
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return fmt.Errorf("waited %v for %s", timeout, missing)
		case <-ctx.Done():
			return fmt.Errorf("%w, while waiting for %s", context.Cause(ctx), missing)
		}
	}
}

// pause waits for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
