package credentials

import (
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// AllNamespaces in Set.AllowedNamespaces lets every namespace use the set.
const AllNamespaces = "*"

// Set is the operator's own database, endpoint and key. A part that is nil or
// empty is not configured; that is a problem of the objects that need it.
type Set struct {
	// Namespace is the operator's own, where Database and Auth are.
	Namespace string
	// AllowedNamespaces may use the set; none means Namespace alone.
	AllowedNamespaces []string
	// DatabaseURL is a whole connection string, for development. It goes before
	// Database.
	DatabaseURL string
	// Database holds a connection string, or only the password if DatabaseParts
	// has the rest.
	Database      *SecretKey
	DatabaseParts *DatabaseParts
	// FunctionsURL is the endpoint, http or https, without user, query and
	// fragment.
	FunctionsURL *url.URL
	// Auth holds the key for FunctionsURL.
	Auth *SecretKey
}

// SecretKey names one key of a Secret in the operator's namespace.
type SecretKey struct{ Name, Key string }

// DatabaseParts is a connection string without its password. Port 0 is 5432.
type DatabaseParts struct {
	Host string
	Port uint16
	User string
	Name string
}

// allows reports whether objects of a namespace may use the set.
func (s Set) allows(namespace string) bool {
	if len(s.AllowedNamespaces) == 0 {
		return namespace == s.Namespace
	}
	return slices.Contains(s.AllowedNamespaces, namespace) || slices.Contains(s.AllowedNamespaces, AllNamespaces)
}

// SecretsOf returns the Secrets that obj's resolution reads, each once, its own
// and those of the set, whether they exist or not.
func SecretsOf(obj *v1alpha1.WorkerFunction, set Set) []types.NamespacedName {
	var names []types.NamespacedName
	add := func(namespace, name string) {
		if n := (types.NamespacedName{Namespace: namespace, Name: name}); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	spec, allowed := obj.Spec, set.allows(obj.Namespace)
	switch {
	case spec.DatabaseSecretRef != nil:
		add(obj.Namespace, spec.DatabaseSecretRef.Name)
	case allowed && set.DatabaseURL == "" && set.Database != nil:
		add(set.Namespace, set.Database.Name)
	}
	switch {
	case spec.AuthSecretRef != nil:
		add(obj.Namespace, spec.AuthSecretRef.Name)
	case allowed && spec.Endpoint == nil && spec.DatabaseSecretRef == nil && set.Auth != nil:
		add(set.Namespace, set.Auth.Name)
	}
	return names
}
