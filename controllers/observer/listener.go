package observer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

const (
	// listenTimeout bounds connecting, and the LISTEN statement.
	listenTimeout = 10 * time.Second
	// proofTimeout bounds a proof that notifications arrive.
	proofTimeout = 5 * time.Second
	// silence is how long nothing may arrive before that is proved again. A connection whose other end has vanished
	// looks just like one on which nothing happens.
	silence = 30 * time.Second
	// healthySpell is how long LISTEN must have worked for its next failure to be retried at once.
	healthySpell = 30 * time.Second
	// closeTimeout bounds the goodbye to the server.
	closeTimeout = 2 * time.Second
)

// errSilence: nothing arrived for as long as silence.
var errSilence = errors.New("nothing arrived")

// listener keeps a connection of its own on which it listens, and tells the database what arrives and whether anything
// can arrive at all.
type listener struct {
	database *Database
	config   *pgx.ConnConfig
	// private is a channel that nobody else uses; what is sent there over the pool proves that notifications arrive.
	private string
}

func newListener(d *Database) *listener {
	return &listener{
		database: d,
		config:   d.pool.Config().ConnConfig,
		private:  "pgflow_observer_" + uuid.NewString(),
	}
}

// run listens until ctx ends, and connects again whenever that is over, with a jittered backoff.
func (l *listener) run(ctx context.Context) {
	d := l.database
	backoff := listenBackoff()
	for {
		began := d.clock.Now()
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		d.setListening(listeningNo, err)
		if d.clock.Since(began) >= healthySpell {
			backoff = listenBackoff()
		}
		timer := d.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

func listenBackoff() wait.Backoff {
	return wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: healthySpell}
}

// listen connects, listens and passes on what arrives, until that no longer works; it returns why.
func (l *listener) listen(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConnection(ctx, conn)
	if err := l.prove(ctx, conn); err != nil {
		return err
	}
	l.database.setListening(listeningYes, nil)
	for {
		err := l.await(ctx, conn)
		if errors.Is(err, errSilence) {
			err = l.prove(ctx, conn)
		}
		if err != nil {
			return err
		}
	}
}

// connect returns a connection that listens on both channels.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listenTimeout, fmt.Errorf("not done within LISTEN's deadline of %s", listenTimeout))
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to listen: %w", named(ctx, err))
	}
	for _, channel := range []string{pgstate.Channel, l.private} {
		// LISTEN takes no parameters.
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			closeConnection(ctx, conn)
			return nil, fmt.Errorf("LISTEN: %w", named(ctx, err))
		}
	}
	return conn, nil
}

// await takes the next notification. The error is errSilence when none arrived for as long as silence.
func (l *listener) await(ctx context.Context, conn *pgx.Conn) error {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := l.database.clock.AfterFunc(silence, func() { cancel(errSilence) })
	defer timer.Stop()
	n, err := conn.WaitForNotification(waiting)
	if err != nil {
		return fmt.Errorf("waiting for notifications: %w", named(waiting, err))
	}
	l.take(n.Channel, n.Payload)
	return nil
}

// prove has a notification sent over another connection and waits for it. It must be another one: a pooler that lends
// out connections per transaction would deliver it to the sender, as part of the answer, and nothing ever after.
func (l *listener) prove(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proofTimeout, fmt.Errorf("a notification sent to ourselves did not arrive within %s", proofTimeout))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := l.database.pool.Exec(ctx, "SELECT pg_notify($1::text, '')", l.private); err != nil {
			giveUp(fmt.Errorf("sending a notification to ourselves: %w", err))
		}
	})
	// Its answer is waited for also after the notification has arrived: to cancel it would cost the connection.
	defer sending.Wait()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			giveUp(err)
			return named(ctx, err)
		}
		if n.Channel == l.private {
			return nil
		}
		l.take(n.Channel, n.Payload)
	}
}

// take passes a notification on, unless it is our own.
func (l *listener) take(channel, payload string) {
	if channel == pgstate.Channel {
		l.database.notified(payload)
	}
}

// named returns what ended ctx in place of err, if that is what happened.
func named(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), err) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// closeConnection says goodbye and returns when nothing of the connection is left.
func closeConnection(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx) // whatever goes wrong, it is closed
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}
