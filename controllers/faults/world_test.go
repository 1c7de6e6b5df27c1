package faults_test

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

//go:embed testdata/audit.sql
var auditSQL string

const (
	// within bounds every wait for something that should happen; most of it takes a fraction of a second.
	within = 90 * time.Second
	often  = 50 * time.Millisecond
	// finishTimeout bounds what is asked when a test has ended.
	finishTimeout = time.Minute
)

// world is a namespace, a database and a stand-in, and the proxies through which its operators reach them.
type world struct {
	t         testing.TB
	g         Gomega
	namespace string
	account   *rest.Config // of the operators
	view      *apiView

	pool     *pgxpool.Pool // not through the proxy
	database *proxy
	gateway  *proxy
	edge     *edgeruntime.Server
	runtime  *edgeruntime.Client

	url       string // of the database, through the proxy, as the Secret has it
	key       string
	operators []*operator

	mu        sync.Mutex
	functions []*function
}

// worlds counts them, so that a test that is repeated has another namespace.
var worlds atomic.Int64

// setting changes how a world is made.
type setting struct {
	// cluster of its own, because the test stops it; nil: the shared one.
	cluster *postgres.Cluster
	// bare leaves out what installs something: migrations, audit, Secret.
	bare bool
	// edge changes the stand-in.
	edge func(*edgeruntime.Options)
}

// newWorld makes a world without operators. It is judged, and removed, when the test ends.
func newWorld(t *testing.T, s setting) *world {
	t.Helper()
	w := &world{t: t, g: NewWithT(t), key: "key-" + rand.Text()}
	w.namespace = fmt.Sprintf("%s-%d", strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), worlds.Add(1))
	var err error
	w.account, err = shared.kube.OperatorConfig(t.Context(), w.namespace)
	w.g.Expect(err).NotTo(HaveOccurred())
	w.view = newAPIView(t, w.namespace)

	direct := ""
	if s.cluster == nil {
		direct = shared.postgres.NewDatabase(t)
	} else {
		direct, err = s.cluster.CreateDatabase(t.Context(), "world")
		w.g.Expect(err).NotTo(HaveOccurred())
	}
	w.pool, err = pgxpool.New(t.Context(), direct)
	w.g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(w.pool.Close)
	through, err := url.Parse(direct)
	w.g.Expect(err).NotTo(HaveOccurred())
	w.database = newProxy(t, through.Host)
	through.Host = w.database.address
	w.url = through.String()

	options := edgeruntime.Options{DatabaseURL: direct, Key: w.key}
	if s.edge != nil {
		s.edge(&options)
	}
	w.edge, err = edgeruntime.Start(options)
	w.g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { w.g.Expect(w.edge.Close()).To(Succeed()) })
	w.runtime = w.edge.Client()
	w.gateway = newProxy(t, strings.TrimPrefix(w.edge.Addresses().Gateway, "http://"))
	if !s.bare {
		w.migrate()
		w.secret(map[string]string{"url": w.url, "key": w.key})
	}
	t.Cleanup(w.finish)
	return w
}

// functionsURL is the gateway through its proxy. The prefix also tells the operator's requests from the tests' own, which
// leave it out.
func (w *world) functionsURL() string { return "http://" + w.gateway.address + "/functions/v1" }

// migrate installs the handshake and the audit.
func (w *world) migrate() {
	w.t.Helper()
	_, err := pgstate.Migrate(w.t.Context(), w.pool.Config().ConnString(), pgstate.MigrateOptions{CreateBaseTables: true})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.exec(auditSQL)
}

// secret makes the operators' Secret.
func (w *world) secret(data map[string]string) {
	w.t.Helper()
	w.g.Expect(shared.admin.Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "operator"}, StringData: data})).To(Succeed())
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql, args...)
	w.g.Expect(err).NotTo(HaveOccurred())
}

// eventually polls until the condition holds.
func (w *world) eventually(condition any) AsyncAssertion {
	return w.g.Eventually(condition).WithTimeout(within).WithPolling(often)
}

// allReady waits until each function has one worker and an object that says so.
func (w *world) allReady(functions ...*function) {
	w.t.Helper()
	for _, f := range functions {
		f.ready()
	}
}

// requests of the operators that reached the gateway: of one function, or of all when that is empty.
func (w *world) requests(ctx context.Context, function string) []edgeruntime.RequestRecord {
	w.t.Helper()
	all, err := w.runtime.Requests(ctx, function, 0)
	w.g.Expect(err).NotTo(HaveOccurred())
	var operators []edgeruntime.RequestRecord
	for _, r := range all {
		if strings.HasPrefix(r.Path, "/functions/v1/") {
			operators = append(operators, r)
		}
	}
	return operators
}

// finish judges the world. Its operators have ended: they were started later.
func (w *world) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), finishTimeout)
	defer cancel()
	w.judge(ctx)
	w.findCredentials(ctx)
	for _, o := range w.operators {
		for _, bad := range []string{"DATA RACE", "panic:", "Observed a panic", "fatal error:"} {
			if strings.Contains(o.output(), bad) {
				w.t.Errorf("%s logged %q:\n%s", o.name, bad, tail(o.output(), 8000))
			}
		}
	}
}

// findCredentials looks for the database's password and the key wherever the operator writes something.
func (w *world) findCredentials(ctx context.Context) {
	password := w.pool.Config().ConnConfig.Password
	look := func(where, text string) {
		for _, credential := range []string{password, w.key} {
			if strings.Contains(text, credential) {
				w.t.Errorf("a credential is in %s", where)
			}
		}
	}
	for _, o := range w.operators {
		look("the log of "+o.name, o.output())
	}
	var objects workersv1alpha1.WorkerFunctionList
	var events eventsv1.EventList
	for where, list := range map[string]client.ObjectList{"an object": &objects, "an event": &events} {
		if err := shared.admin.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			w.t.Errorf("looking for credentials: %v", err)
			continue
		}
		text, err := json.Marshal(list)
		if err != nil {
			w.t.Error(err)
		}
		look(where, string(text))
	}
}
