package credentials

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

const (
	operatorURL = "postgres://op:operator-pw@opdb:5432/postgres"
	tenantURL   = "postgres://te:tenant-pw@tedb:5432/postgres"
)

// fullSet is a set with nothing missing.
func fullSet() Set {
	functions, _ := url.Parse("http://gateway:8000/functions/v1")
	return Set{
		Namespace:    operator,
		Database:     &SecretKey{Name: "set", Key: "url"},
		FunctionsURL: functions,
		Auth:         &SecretKey{Name: "set", Key: "key"},
	}
}

// object is a WorkerFunction; the arguments name keys of the Secret "own".
func object(namespace, endpoint, auth, database string) *v1alpha1.WorkerFunction {
	obj := &v1alpha1.WorkerFunction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "greet"}}
	if endpoint != "" {
		obj.Spec.Endpoint = &v1alpha1.Endpoint{URL: endpoint}
	}
	if auth != "" {
		obj.Spec.AuthSecretRef = &v1alpha1.SecretKeyRef{Name: "own", Key: auth}
	}
	if database != "" {
		obj.Spec.DatabaseSecretRef = &v1alpha1.SecretKeyRef{Name: "own", Key: database}
	}
	return obj
}

// Whose credentials: each combination, and that nothing of one side reaches the
// other. The operator's namespace has a Secret "own" as well, with other values.
func TestWhoseCredentials(t *testing.T) {
	r := start(t)
	r.secret(t, operator, "set", map[string]string{"url": operatorURL, "key": "operator-key"})
	r.secret(t, operator, "own", map[string]string{"url": tenantURL, "key": "wrong-namespace"})
	r.secret(t, tenant, "own", map[string]string{"url": tenantURL, "key": "tenant-key"})
	r.secret(t, tenant, "set", map[string]string{"url": "postgres://evil:evil@evil/evil", "key": "wrong-namespace"})
	const (
		mine   = "https://mine.example/fn"
		theirs = "http://gateway:8000/functions/v1"
	)
	for name, tc := range map[string]struct {
		obj                     *v1alpha1.WorkerFunction
		allowed                 []string
		database, endpoint, key string
		reason                  string
	}{
		"nothing own, operator's namespace": {obj: object(operator, "", "", ""), database: "opdb:5432/postgres", endpoint: theirs, key: "operator-key"},
		"nothing own, not allowed":          {obj: object(tenant, "", "", ""), reason: v1alpha1.ReasonNamespaceNotAllowed},
		"nothing own, allowed":              {obj: object(tenant, "", "", ""), allowed: []string{tenant}, database: "opdb:5432/postgres", endpoint: theirs, key: "operator-key"},
		"nothing own, all allowed":          {obj: object(tenant, "", "", ""), allowed: []string{"*"}, database: "opdb:5432/postgres", endpoint: theirs, key: "operator-key"},
		"operator's own left out":           {obj: object(operator, "", "", ""), allowed: []string{tenant}, reason: v1alpha1.ReasonNamespaceNotAllowed},
		"all own, not allowed":              {obj: object(tenant, mine, "key", "url"), database: "tedb:5432/postgres", endpoint: mine, key: "tenant-key"},
		"own endpoint and key, allowed":     {obj: object(tenant, mine, "key", ""), allowed: []string{tenant}, database: "opdb:5432/postgres", endpoint: mine, key: "tenant-key"},
		"own endpoint and key, not allowed": {obj: object(tenant, mine, "key", ""), reason: v1alpha1.ReasonNamespaceNotAllowed},
		"own endpoint, operator's key":      {obj: object(tenant, mine, "", ""), allowed: []string{"*"}, reason: v1alpha1.ReasonSetIncomplete},
		"own endpoint, operator's key, too": {obj: object(operator, mine, "", "url"), reason: v1alpha1.ReasonSetIncomplete},
		"own key, operator's endpoint":      {obj: object(tenant, "", "key", ""), allowed: []string{"*"}, reason: v1alpha1.ReasonSetIncomplete},
		"own database, operator's endpoint": {obj: object(tenant, "", "", "url"), allowed: []string{"*"}, reason: v1alpha1.ReasonSetIncomplete},
		"endpoint with a user":              {obj: object(tenant, "http://u:p@h", "key", "url"), reason: v1alpha1.ReasonSetIncomplete},
		"endpoint without scheme":           {obj: object(tenant, "gateway:8000", "key", "url"), reason: v1alpha1.ReasonSetIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set := fullSet()
			set.AllowedNamespaces = tc.allowed
			got, err := NewResolver(set, r.live, r.metadata).Resolve(t.Context(), tc.obj)
			if tc.reason != "" {
				_ = expectProblem(g, err, tc.reason)
				g.Expect(got).To(Equal(Resolved{}))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Connection.Identity()).To(Equal(tc.database))
			g.Expect(got.Endpoint.String()).To(Equal(tc.endpoint))
			g.Expect(got.Key.Reveal()).To(Equal(tc.key))
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				g.Expect(fmt.Sprintf(verb, got)).NotTo(Or(ContainSubstring(tc.key), ContainSubstring("-pw")))
			}
		})
	}
}

// expectProblem wants a Problem with this reason and a message that leaks
// nothing.
func expectProblem(g Gomega, err error, reason string) *Problem {
	var p *Problem
	g.Expect(errors.As(err, &p)).To(BeTrue(), "%v", err)
	g.Expect(p.Reason).To(Equal(reason), p.Message)
	g.Expect(p.Message).NotTo(BeEmpty())
	g.Expect(p.Error()).NotTo(Or(ContainSubstring("-pw"), ContainSubstring("-key\n"), ContainSubstring("s3cret")))
	return p
}

// The operator's database in all its forms.
func TestSetDatabase(t *testing.T) {
	r := start(t)
	r.secret(t, operator, "forms", map[string]string{
		"url": operatorURL + "\n", "password": "s3cret-pw\r\n", "empty": "", "newline": "\n",
		"half": "postgres://op@opdb/postgres", "file": operatorURL + "?sslrootcert=/s3cret", "broken": "postgres://op:s3cret%@opdb/x",
	})
	parts := &DatabaseParts{Host: "parts", Port: 6543, User: "u", Name: "n"}
	for name, tc := range map[string]struct {
		key    string
		parts  *DatabaseParts
		url    string
		want   string
		reason string
		says   string
	}{
		"URL with a newline":        {key: "url", want: "opdb:5432/postgres"},
		"password and parts":        {key: "password", parts: parts, want: "parts:6543/n"},
		"plain URL":                 {url: "postgres://a:b@dev/x", want: "dev:5432/x"},
		"plain URL before a Secret": {url: "postgres://a:b@dev/x", key: "absent", want: "dev:5432/x"},
		"plain URL, bad":            {url: "postgres://a@dev/s3cret", reason: v1alpha1.ReasonDatabaseURLInvalid, says: "--database-url"},
		"none":                      {reason: v1alpha1.ReasonSetIncomplete, says: "--database-secret"},
		"key absent":                {key: "absent", reason: v1alpha1.ReasonSecretMissing, says: `has no key "absent"`},
		"empty URL":                 {key: "empty", reason: v1alpha1.ReasonDatabaseURLInvalid},
		"empty password":            {key: "newline", parts: parts, reason: v1alpha1.ReasonDatabaseURLInvalid, says: "password"},
		"only a password":           {key: "password", reason: v1alpha1.ReasonDatabaseURLInvalid, says: "--database-host"},
		"URL for a password":        {key: "url", parts: parts, reason: v1alpha1.ReasonSecretInvalid, says: "without --database-host"},
		"no password":               {key: "half", reason: v1alpha1.ReasonDatabaseURLInvalid},
		"reads a file":              {key: "file", reason: v1alpha1.ReasonDatabaseURLInvalid},
		"cannot be parsed":          {key: "broken", reason: v1alpha1.ReasonDatabaseURLInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set := Set{Namespace: operator, DatabaseParts: tc.parts, DatabaseURL: tc.url}
			if tc.key != "" {
				set.Database = &SecretKey{Name: "forms", Key: tc.key}
			}
			got, err := NewResolver(set, r.live, r.metadata).ResolveDatabase(t.Context(), object(operator, "", "", ""))
			if tc.reason != "" {
				g.Expect(expectProblem(g, err, tc.reason).Message).To(ContainSubstring(tc.says))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Identity()).To(Equal(tc.want))
		})
	}
}

// An object's own connection string gets nothing from the environment.
func TestOwnDatabaseIsComplete(t *testing.T) {
	t.Setenv("PGPASSWORD", "operator-pw")
	t.Setenv("PGHOST", "opdb")
	r := start(t)
	for i, raw := range []string{"postgres://te@evil/postgres", "postgres:///postgres?host=evil", "host=evil user=te", "postgres://te:x@evil", "postgres://te:x@evil/db?passfile=/s3cret"} {
		g := NewWithT(t)
		r.secret(t, tenant, "own", map[string]string{"url": raw, "key": "k", "n": fmt.Sprint(i)})
		_, err := NewResolver(fullSet(), r.live, r.metadata).Resolve(t.Context(), object(tenant, "http://mine", "key", "url"))
		_ = expectProblem(g, err, v1alpha1.ReasonDatabaseURLInvalid)
	}
}

// Keys: what echo leaves is trimmed, what cannot be sent is refused.
func TestKeys(t *testing.T) {
	r := start(t)
	values := map[string]struct{ raw, want, says string }{
		"plain":       {raw: "sk-Abc.123_~", want: "sk-Abc.123_~"},
		"newline":     {raw: "abc\n", want: "abc"},
		"crlf":        {raw: "abc\r\n\r\n", want: "abc"},
		"inner-space": {raw: "a b", want: "a b"},
		"empty":       {raw: "", says: "is empty"},
		"only-nl":     {raw: "\n", says: "is empty"},
		"break":       {raw: "s3cret\nInjected: header", says: "line break"},
		"nul":         {raw: "s3cret\x00", says: "cannot stand in a header"},
		"umlaut":      {raw: "s3cretä", says: "cannot stand in a header"},
		"tab":         {raw: "s3cret\t", says: "cannot stand in a header"},
		"space":       {raw: "s3cret ", says: "begins or ends with a space"},
		"long":        {raw: strings.Repeat("s3cret", 2000), says: "too long"},
	}
	data := map[string]string{"url": operatorURL}
	for name, tc := range values {
		data[name] = tc.raw
	}
	r.secret(t, operator, "keys", data)
	for name, tc := range values {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set := fullSet()
			set.Database, set.Auth = &SecretKey{Name: "keys", Key: "url"}, &SecretKey{Name: "keys", Key: name}
			got, err := NewResolver(set, r.live, r.metadata).Resolve(t.Context(), object(operator, "", "", ""))
			if tc.says != "" {
				g.Expect(expectProblem(g, err, v1alpha1.ReasonSecretInvalid).Message).To(ContainSubstring(tc.says))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Key.Reveal()).To(Equal(tc.want))
		})
	}
}

// A set that lacks endpoint or key says which flag to add.
func TestIncompleteSet(t *testing.T) {
	r := start(t)
	r.secret(t, operator, "set", map[string]string{"url": operatorURL, "key": "operator-key"})
	for flag, remove := range map[string]func(*Set){
		"--functions-url": func(s *Set) { s.FunctionsURL = nil },
		"--auth-secret":   func(s *Set) { s.Auth = nil },
	} {
		g := NewWithT(t)
		set := fullSet()
		remove(&set)
		_, err := NewResolver(set, r.live, r.metadata).Resolve(t.Context(), object(operator, "", "", ""))
		g.Expect(expectProblem(g, err, v1alpha1.ReasonSetIncomplete).Message).To(ContainSubstring(flag))
	}
}

// A Secret is read live once per version; a rotation is seen, a Secret that goes
// is missing, and one that comes back is found.
func TestRotation(t *testing.T) {
	r := start(t)
	g := NewWithT(t)
	set := Set{Namespace: operator, Database: &SecretKey{Name: "rotate", Key: "url"}}
	resolver := NewResolver(set, r.live, r.metadata)
	obj := object(operator, "", "", "")
	_, err := resolver.Resolve(t.Context(), obj)
	g.Expect(expectProblem(g, err, v1alpha1.ReasonSecretMissing).Message).To(And(
		ContainSubstring("operator/rotate"), ContainSubstring("--database-secret"), ContainSubstring("does not exist")))
	g.Expect(r.live.count()).To(BeZero())

	for i, want := range []string{"one:5432/x", "two:5432/x"} {
		r.secret(t, operator, "rotate", map[string]string{"url": "postgres://u:p@" + strings.TrimSuffix(want, ":5432/x") + "/x"})
		for range 5 {
			connection, err := resolver.ResolveDatabase(t.Context(), obj)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(connection.Identity()).To(Equal(want))
		}
		g.Expect(r.live.count()).To(Equal(i + 1))
	}

	// A key that is absent is not asked for again either.
	r.secret(t, operator, "rotate", map[string]string{"other": "x"})
	for range 5 {
		_, err = resolver.ResolveDatabase(t.Context(), obj)
		_ = expectProblem(g, err, v1alpha1.ReasonSecretMissing)
	}
	g.Expect(r.live.count()).To(Equal(3))

	g.Expect(r.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "rotate"}})).To(Succeed())
	g.Eventually(func(g Gomega) {
		_, err := resolver.ResolveDatabase(t.Context(), obj)
		g.Expect(expectProblem(g, err, v1alpha1.ReasonSecretMissing).Message).To(ContainSubstring("does not exist"))
	}).WithTimeout(patience).Should(Succeed())
	g.Expect(resolver.secrets.values).To(BeEmpty())
}

// What no object refers to any more is not kept.
func TestForgotten(t *testing.T) {
	r := start(t)
	g := NewWithT(t)
	r.secret(t, tenant, "own", map[string]string{"url": tenantURL, "key": "tenant-key", "next": "next-key"})
	r.secret(t, operator, "set", map[string]string{"url": operatorURL, "key": "operator-key"})
	set := fullSet()
	set.AllowedNamespaces = []string{AllNamespaces}
	resolver := NewResolver(set, r.live, r.metadata)
	kept := func() (secrets []string) {
		for id := range resolver.secrets.values {
			secrets = append(secrets, id.String())
		}
		return secrets
	}
	resolve := func(obj *v1alpha1.WorkerFunction) types.NamespacedName {
		_, err := resolver.Resolve(t.Context(), obj)
		g.Expect(err).NotTo(HaveOccurred())
		return types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}
	}

	one := resolve(object(tenant, "http://h", "key", "url"))
	second := object(tenant, "http://h", "key", "")
	second.Name = "second"
	two := resolve(second)
	g.Expect(kept()).To(ConsistOf("tenant/own", "tenant/own", "operator/set"))
	resolver.Forget(one)
	resolver.Forget(one)
	g.Expect(kept()).To(ConsistOf("tenant/own", "tenant/own", "operator/set"))
	second.Spec.Endpoint, second.Spec.AuthSecretRef = nil, nil
	resolve(second)
	g.Expect(kept()).To(ConsistOf("operator/set", "operator/set"))
	resolver.Forget(two)
	g.Expect(kept()).To(BeEmpty())
	g.Expect(resolver.secrets.named).To(BeEmpty())
	g.Expect(resolver.secrets.users).To(BeEmpty())

	// Neither is what is read for nobody, such as a deleted object's rival.
	_, err := resolver.ResolveDatabase(t.Context(), second)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept()).To(BeEmpty())
}

// An API server that does not answer is no Problem, and nothing wrong is kept.
func TestTransientError(t *testing.T) {
	r := start(t)
	g := NewWithT(t)
	r.secret(t, operator, "transient", map[string]string{"url": operatorURL})
	resolver := NewResolver(Set{Namespace: operator, Database: &SecretKey{Name: "transient", Key: "url"}}, r.live, r.metadata)
	r.live.fail = errors.New("away")
	_, err := resolver.ResolveDatabase(t.Context(), object(operator, "", "", ""))
	g.Expect(err).To(MatchError(And(ContainSubstring("operator/transient"), ContainSubstring("away"))))
	var p *Problem
	g.Expect(errors.As(err, &p)).To(BeFalse())
	r.live.fail = nil
	_, err = resolver.ResolveDatabase(t.Context(), object(operator, "", "", ""))
	g.Expect(err).NotTo(HaveOccurred())
}

// A cache of metadata that is behind does not cause a live read each time.
func TestNewer(t *testing.T) {
	g := NewWithT(t)
	g.Expect(newer("10", "9")).To(BeTrue())
	g.Expect(newer("9", "10")).To(BeFalse())
	g.Expect(newer("9", "9")).To(BeFalse())
	g.Expect(newer("x", "9")).To(BeTrue())
	g.Expect(newer("x", "x")).To(BeFalse())
}

// The Secrets that an object depends on are those that its resolution reads.
func TestSecretsOf(t *testing.T) {
	g := NewWithT(t)
	own, theirs := types.NamespacedName{Namespace: tenant, Name: "own"}, types.NamespacedName{Namespace: operator, Name: "set"}
	all := fullSet()
	all.AllowedNamespaces = []string{AllNamespaces}
	dev := all
	dev.DatabaseURL = operatorURL
	dev.Auth = &SecretKey{Name: "auth", Key: "k"}
	g.Expect(SecretsOf(object(tenant, "", "", ""), all)).To(Equal([]types.NamespacedName{theirs}))
	g.Expect(SecretsOf(object(tenant, "", "", ""), fullSet())).To(BeEmpty())
	g.Expect(SecretsOf(object(tenant, "", "", ""), dev)).To(Equal([]types.NamespacedName{{Namespace: operator, Name: "auth"}}))
	g.Expect(SecretsOf(object(tenant, "http://h", "key", ""), all)).To(Equal([]types.NamespacedName{theirs, own}))
	g.Expect(SecretsOf(object(tenant, "http://h", "key", "url"), all)).To(Equal([]types.NamespacedName{own}))
	g.Expect(SecretsOf(object(tenant, "", "", ""), Set{AllowedNamespaces: []string{AllNamespaces}})).To(BeEmpty())
}
