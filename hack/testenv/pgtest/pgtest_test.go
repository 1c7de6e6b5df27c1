package pgtest_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestDatabasesAreFreshAndSeparate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			url := pgtest.NewDatabase(t)
			t.Logf("NewDatabase took %v", time.Since(begun))
			connection, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			// Left open: the database is dropped all the same.
			if _, err := connection.Exec(t.Context(), "CREATE TABLE marks (id int)"); err != nil {
				t.Fatalf("the database is not empty: %v", err)
			}
		})
	}
}
