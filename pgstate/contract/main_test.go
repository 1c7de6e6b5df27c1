package contract_test

import (
	"os"
	"testing"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
