package credentials

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/delivery"
)

// readTimeout bounds one live read of a Secret.
const readTimeout = 10 * time.Second

// reference is one key of one Secret.
type reference struct {
	types.NamespacedName
	key string
	// from names the field or flag that refers to it, in messages.
	from string
}

// secrets reads keys of Secrets, live when they have changed.
type secrets struct {
	live     client.Reader // never a cache: it would hold every Secret
	metadata client.Reader // a cache of metadata

	mu     sync.Mutex
	values map[valueKey]value
	// named is which Secrets each object is served with, and users how many objects name a Secret.
	named map[types.NamespacedName][]types.NamespacedName
	users map[types.NamespacedName]int
}

func newSecrets(live, metadata client.Reader) *secrets {
	return &secrets{
		live: live, metadata: metadata,
		values: map[valueKey]value{},
		named:  map[types.NamespacedName][]types.NamespacedName{},
		users:  map[types.NamespacedName]int{},
	}
}

// name makes these the Secrets that an object is served with, none for an
// object that is gone. What no object names any more is dropped.
func (s *secrets) name(object types.NamespacedName, names []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.named[object]
	if slices.Equal(before, names) {
		return
	}
	for _, name := range names {
		s.users[name]++
	}
	for _, name := range before {
		if s.users[name]--; s.users[name] == 0 {
			delete(s.users, name)
			maps.DeleteFunc(s.values, func(id valueKey, _ value) bool { return id.NamespacedName == name })
		}
	}
	s.named[object] = names
	if len(names) == 0 {
		delete(s.named, object)
	}
}

type valueKey struct {
	types.NamespacedName
	key string
}

// value is what a key held at a version of its Secret. A Secret without that
// key is remembered too, so that nobody asks again until it changes.
type value struct {
	resourceVersion string
	present         bool
	content         delivery.Secret
}

// read returns what the reference leads to. It is a Problem if there is
// nothing.
func (s *secrets) read(ctx context.Context, ref reference) (delivery.Secret, error) {
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := s.metadata.Get(ctx, ref.NamespacedName, seen); err != nil {
		return delivery.Secret{}, s.readError(ref, err)
	}
	id := valueKey{ref.NamespacedName, ref.key}
	s.mu.Lock()
	v, ok := s.values[id]
	s.mu.Unlock()
	if !ok || newer(seen.ResourceVersion, v.resourceVersion) {
		var err error
		if v, err = s.readLive(ctx, ref); err != nil {
			return delivery.Secret{}, s.readError(ref, err)
		}
		s.mu.Lock()
		// Of two concurrent reads the newer is kept, and nothing that no object is
		// served with.
		if kept, ok := s.values[id]; s.users[id.NamespacedName] > 0 && (!ok || !newer(kept.resourceVersion, v.resourceVersion)) {
			s.values[id] = v
		}
		s.mu.Unlock()
	}
	if !v.present {
		return delivery.Secret{}, problem(v1alpha1.ReasonSecretMissing,
			"Secret %s, named in %s, has no key %q: add it to the Secret, or correct %s", ref, ref.from, ref.key, ref.from)
	}
	return v.content, nil
}

func (s *secrets) readLive(ctx context.Context, ref reference) (value, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("no answer within %s", readTimeout))
	defer cancel()
	secret := &corev1.Secret{}
	if err := s.live.Get(ctx, ref.NamespacedName, secret); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return value{}, err
	}
	data, present := secret.Data[ref.key]
	return value{resourceVersion: secret.ResourceVersion, present: present, content: delivery.NewSecret(string(data))}, nil
}

// readError tells a Secret that is not there from an API server that is not.
func (s *secrets) readError(ref reference, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Secret %s: %w", ref, err)
	}
	s.mu.Lock()
	delete(s.values, valueKey{ref.NamespacedName, ref.key})
	s.mu.Unlock()
	return problem(v1alpha1.ReasonSecretMissing, "Secret %s, named in %s, does not exist: create it, or correct %s", ref, ref.from, ref.from)
}

// newer reports whether version a is newer than b. The cache of metadata may be
// behind a live read; then the live read counts.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a != b
	}
	return order > 0
}
