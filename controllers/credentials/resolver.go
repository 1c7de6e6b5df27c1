package credentials

import (
	"context"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/delivery"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// maxKey is the longest key in bytes; gateways take 8 KiB of header.
const maxKey = 7 << 10

// Resolver resolves objects. Its methods may be called concurrently.
type Resolver struct {
	set     Set
	secrets *secrets
}

// NewResolver returns a Resolver for the operator's set. The live reader reads
// from the API server; the metadata reader answers PartialObjectMetadata of
// Secrets from a cache.
func NewResolver(set Set, live, metadata client.Reader) *Resolver {
	return &Resolver{set: set, secrets: newSecrets(live, metadata)}
}

// Resolved is what an object is served with. It prints no credential.
type Resolved struct {
	Connection pgstate.Connection
	// Endpoint is the functions URL. It may be shared and must not be changed.
	Endpoint *url.URL
	Key      delivery.Secret
}

// Resolve returns what obj is served with. An error is a *Problem, or the API
// server's and temporary. The Secrets that obj refers to are remembered until
// Forget, so that they are not read again before they change.
func (r *Resolver) Resolve(ctx context.Context, obj *v1alpha1.WorkerFunction) (Resolved, error) {
	r.secrets.name(client.ObjectKeyFromObject(obj), SecretsOf(obj, r.set))
	connection, err := r.ResolveDatabase(ctx, obj)
	if err != nil {
		return Resolved{}, err
	}
	endpoint, ref, err := r.endpoint(obj)
	if err != nil {
		return Resolved{}, err
	}
	key, err := r.key(ctx, ref)
	if err != nil {
		return Resolved{}, err
	}
	return Resolved{Connection: connection, Endpoint: endpoint, Key: key}, nil
}

// Forget drops what only the object referred to.
func (r *Resolver) Forget(object types.NamespacedName) { r.secrets.name(object, nil) }

// ResolveDatabase returns only the connection of obj, and remembers nothing for
// it. An error is as Resolve's.
func (r *Resolver) ResolveDatabase(ctx context.Context, obj *v1alpha1.WorkerFunction) (pgstate.Connection, error) {
	if err := checkSpec(obj.Spec); err != nil {
		return pgstate.Connection{}, err
	}
	if own := obj.Spec.DatabaseSecretRef; own != nil {
		ref := ownReference(obj, own, "spec.databaseSecretRef")
		raw, err := r.secrets.read(ctx, ref)
		if err != nil {
			return pgstate.Connection{}, err
		}
		return parseURL(raw.Reveal(), ref, "")
	}
	if err := r.checkNamespace(obj); err != nil {
		return pgstate.Connection{}, err
	}
	return r.setDatabase(ctx)
}

// checkSpec refuses the combinations that CEL refuses at apply.
func checkSpec(spec v1alpha1.WorkerFunctionSpec) error {
	switch {
	case spec.Endpoint != nil && spec.AuthSecretRef == nil:
		return problem(v1alpha1.ReasonSetIncomplete, "spec.endpoint needs spec.authSecretRef: the operator's own key is never sent to another endpoint")
	case spec.Endpoint == nil && spec.AuthSecretRef != nil:
		return problem(v1alpha1.ReasonSetIncomplete, "spec.authSecretRef needs spec.endpoint: a key is only sent to the endpoint it belongs to")
	case spec.Endpoint == nil && spec.DatabaseSecretRef != nil:
		return problem(v1alpha1.ReasonSetIncomplete, "spec.databaseSecretRef needs spec.endpoint and spec.authSecretRef: "+
			"the operator's own endpoint and key are not used for functions of another database")
	}
	return nil
}

func (r *Resolver) checkNamespace(obj *v1alpha1.WorkerFunction) error {
	if r.set.allows(obj.Namespace) {
		return nil
	}
	return problem(v1alpha1.ReasonNamespaceNotAllowed, "namespace %s may not use the operator's own database, endpoint and key: "+
		"set spec.endpoint, spec.authSecretRef and spec.databaseSecretRef in a new object, or add the namespace to the operator's --allowed-namespaces",
		obj.Namespace)
}

// setDatabase returns the connection of the set.
func (r *Resolver) setDatabase(ctx context.Context) (pgstate.Connection, error) {
	if r.set.DatabaseURL != "" {
		connection, err := pgstate.ParseURL(r.set.DatabaseURL)
		if err != nil {
			return pgstate.Connection{}, problem(v1alpha1.ReasonDatabaseURLInvalid,
				"%s: correct the operator's --database-url (or DATABASE_URL)", connectionFault(err))
		}
		return connection, nil
	}
	if r.set.Database == nil {
		return pgstate.Connection{}, problem(v1alpha1.ReasonSetIncomplete, "the operator has no database of its own: start it with --database-secret")
	}
	ref := r.setReference(r.set.Database, "--database-secret")
	raw, err := r.secrets.read(ctx, ref)
	if err != nil {
		return pgstate.Connection{}, err
	}
	parts := r.set.DatabaseParts
	if parts == nil {
		return parseURL(raw.Reveal(), ref, "; if it is only the password, start the operator with --database-host, --database-port, --database-user and --database-name")
	}
	password := trimNewlines(raw.Reveal())
	if strings.HasPrefix(password, "postgres://") || strings.HasPrefix(password, "postgresql://") {
		return pgstate.Connection{}, problem(v1alpha1.ReasonSecretInvalid,
			"key %q of Secret %s holds a URL where --database-host makes it the password: start the operator without --database-host, or store only the password",
			ref.key, ref)
	}
	connection, err := pgstate.NewConnection(parts.Host, parts.Port, parts.User, password, parts.Name)
	if err != nil {
		return pgstate.Connection{}, problem(v1alpha1.ReasonDatabaseURLInvalid,
			"%s: correct key %q of Secret %s, which is the password, or --database-host, --database-port, --database-user and --database-name",
			connectionFault(err), ref.key, ref)
	}
	return connection, nil
}

// endpoint returns where obj is invoked, and where the key for that is.
func (r *Resolver) endpoint(obj *v1alpha1.WorkerFunction) (*url.URL, reference, error) {
	if own := obj.Spec.Endpoint; own != nil { // with a key of its own, by checkSpec
		u, err := url.Parse(own.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, reference{}, problem(v1alpha1.ReasonSetIncomplete,
				"spec.endpoint.url must be an http:// or https:// URL with a host and without user, query and fragment")
		}
		return u, ownReference(obj, obj.Spec.AuthSecretRef, "spec.authSecretRef"), nil
	}
	// The database is the set's too, so the namespace is allowed.
	if r.set.FunctionsURL == nil {
		return nil, reference{}, problem(v1alpha1.ReasonSetIncomplete, "the operator has no endpoint of its own: start it with --functions-url")
	}
	if r.set.Auth == nil {
		return nil, reference{}, problem(v1alpha1.ReasonSetIncomplete, "the operator has no key of its own: start it with --auth-secret")
	}
	return r.set.FunctionsURL, r.setReference(r.set.Auth, "--auth-secret"), nil
}

// key reads a key and refuses what cannot be sent as one.
func (r *Resolver) key(ctx context.Context, ref reference) (delivery.Secret, error) {
	raw, err := r.secrets.read(ctx, ref)
	if err != nil {
		return delivery.Secret{}, err
	}
	key := trimNewlines(raw.Reveal())
	fault := ""
	switch {
	case key == "":
		fault = "is empty"
	case len(key) > maxKey:
		fault = "is too long for a header"
	case strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		fault = "has a line break or another character that cannot stand in a header"
	case strings.TrimSpace(key) != key:
		fault = "begins or ends with a space"
	default:
		return delivery.NewSecret(key), nil
	}
	return delivery.Secret{}, problem(v1alpha1.ReasonSecretInvalid, "key %q of Secret %s, named in %s, %s: store the key of the endpoint there",
		ref.key, ref, ref.from, fault)
}

// parseURL reads a connection string. The hint, if any, ends the message.
func parseURL(raw string, ref reference, hint string) (pgstate.Connection, error) {
	connection, err := pgstate.ParseURL(raw)
	if err != nil {
		return pgstate.Connection{}, problem(v1alpha1.ReasonDatabaseURLInvalid, "%s: correct key %q of Secret %s, named in %s%s",
			connectionFault(err), ref.key, ref, ref.from, hint)
	}
	return connection, nil
}

// trimNewlines removes what echo leaves behind a value.
func trimNewlines(s string) string { return strings.TrimRight(s, "\r\n") }

func ownReference(obj *v1alpha1.WorkerFunction, ref *v1alpha1.SecretKeyRef, from string) reference {
	return reference{NamespacedName: types.NamespacedName{Namespace: obj.Namespace, Name: ref.Name}, key: ref.Key, from: from}
}

func (r *Resolver) setReference(key *SecretKey, flag string) reference {
	return reference{NamespacedName: types.NamespacedName{Namespace: r.set.Namespace, Name: key.Name}, key: key.Key, from: "the operator's " + flag}
}
