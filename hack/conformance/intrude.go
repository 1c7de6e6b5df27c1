package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// skip says that a case cannot be driven here, and what would help.
type skip struct{ reason string }

func (s *skip) Error() string { return s.reason }

// refuseWorkers makes the database refuse the function's new workers.
func (k *kit) refuseWorkers(ctx context.Context) error {
	return k.intrude(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, refuseSQL)
		return err
	})
}

// silenceWorkers makes the heartbeats of the function's workers old and keeps their loops from renewing them.
func (k *kit) silenceWorkers(ctx context.Context) error {
	return k.intrude(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockWorkersSQL); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, ageSQL, k.function); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, silenceSQL)
		return err
	})
}

// detainWorkers keeps sessions that insert a worker of the function waiting for this one, with the worker's id on show.
func (k *kit) detainWorkers(ctx context.Context) error {
	return k.intrude(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, publishSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, detainSQL)
		return err
	})
}

// letGo ends the waiting that detainWorkers began.
func (k *kit) letGo(ctx context.Context) error {
	_, err := k.session.Exec(ctx, letGoSQL)
	return pgstate.TranslateError("let go of the worker", err)
}

func (k *kit) intrude(ctx context.Context, create func(pgx.Tx) error) error {
	if _, err := k.session.Exec(ctx, nameFunctionSQL, k.function); err != nil {
		return pgstate.TranslateError("create a temporary trigger", err)
	}
	err := pgstate.TranslateError("create a temporary trigger", pgx.BeginFunc(ctx, k.session, create))
	if errors.Is(err, pgstate.ErrPermission) {
		return &skip{fmt.Sprintf("give the owner of pgflow.workers in --database-url: %v", err)}
	}
	return err
}

// withdraw ends what refuseWorkers or silenceWorkers began; without, it does nothing.
func (k *kit) withdraw(ctx context.Context) error {
	if k.session.Conn().IsClosed() {
		return nil // and all of it has ended with the session
	}
	_, err := k.session.Exec(ctx, withdrawSQL)
	return pgstate.TranslateError("drop the temporary trigger", err)
}
