package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkerFunctionSpec says which registration is meant and what is wanted of it.
//
// +kubebuilder:validation:XValidation:rule="has(self.functionName) == has(oldSelf.functionName) && (!has(self.functionName) || self.functionName == oldSelf.functionName)",message="functionName cannot be changed, set or removed later, because the object would stand for another function: delete this object and create a new one (deletionPolicy: Orphan leaves the old function running)"
// +kubebuilder:validation:XValidation:rule="has(self.databaseSecretRef) == has(oldSelf.databaseSecretRef) && (!has(self.databaseSecretRef) || self.databaseSecretRef == oldSelf.databaseSecretRef)",message="databaseSecretRef cannot be changed, set or removed later, because the object would stand for a function of another database: change the content of the Secret, or delete this object and create a new one"
// +kubebuilder:validation:XValidation:rule="has(self.endpoint) == has(self.authSecretRef)",message="endpoint and authSecretRef go together, set both or neither: a key is only ever sent to the endpoint it belongs to, so the operator's own key never goes to an endpoint named here"
// +kubebuilder:validation:XValidation:rule="!has(self.databaseSecretRef) || has(self.endpoint)",message="databaseSecretRef needs endpoint and authSecretRef as well: the operator's own endpoint and key belong to the operator's own database, and are not used for functions of another one"
type WorkerFunctionSpec struct {
	// FunctionName is the function's name in pgflow; default is this object's name. It cannot be changed, set or
	// removed later.
	// ---
	// A name is sent as one segment of a URL path, so it cannot be "." or "..", nor contain a slash, a backslash
	// (which proxies turn into a slash) or a control character. 512 characters make at most 6 KB when escaped,
	// which gateways still take, and 2 KB in an index of the database, which takes 2.7.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self != '.' && self != '..' && !self.matches('[/\\\\\\\\\\\\p{Cc}]')",message="functionName must be one segment of a URL path: not \".\" or \"..\", and without slashes, backslashes and control characters"
	FunctionName string `json:"functionName,omitempty"`

	Mirrored `json:",inline"`

	// Suspend makes the operator only watch: it starts nothing and writes nothing to the database.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DeletionPolicy says what happens to the registration when this object is deleted. Disable sets
	// enabled = false in its row, unless another object stands for the same registration; workers that run are
	// left to end by themselves. Orphan leaves the row as it is.
	//
	// +optional
	// +kubebuilder:default=Disable
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Endpoint is where the function is reached; default is the operator's own functions URL. It needs
	// authSecretRef.
	//
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// AuthSecretRef names the key that is sent to the endpoint as bearer token. It needs endpoint.
	//
	// +optional
	AuthSecretRef *SecretKeyRef `json:"authSecretRef,omitempty"`

	// DatabaseSecretRef names the connection string of the database that holds the registration, as a
	// postgres:// URL with host, user, password and database; default is the operator's own database. It needs
	// endpoint and authSecretRef, and cannot be changed, set or removed later.
	//
	// +optional
	DatabaseSecretRef *SecretKeyRef `json:"databaseSecretRef,omitempty"`
}

// Mirrored is the part of a spec that mirrors columns of the registration. A field that is not set leaves its
// column alone. A field that is set is written when the registration is created and when it differs from what was
// last written for this object (status.applied); any other difference is shown as condition Drifted.
//
// Durations are written like 6s, 1m30s or 1.5s, in h, m, s and ms.
// ---
// They are never finer than a microsecond, which is the resolution of PostgreSQL's interval: a finer one would differ
// from its own row for ever. The rules' expression also bounds the digits, so that duration() cannot overflow and
// refuse with a message of its own.
type Mirrored struct {
	// Enabled says whether the function is started at all.
	//
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// StartMode is http for functions that are started by a request, process for those that start by themselves
	// and are only shown here.
	//
	// +optional
	StartMode *StartMode `json:"startMode,omitempty"`

	// Debounce is the shortest time between two attempts to start the function, 1s to 24h. Failed starts double
	// it, up to 5 minutes.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?[hm]|[0-9]{1,8}([.][0-9]{1,6})?s|[0-9]{1,8}([.][0-9]{1,3})?ms)+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="debounce must be a duration from 1s to 24h, written like 6s, 1m30s or 1.5s"
	Debounce *metav1.Duration `json:"debounce,omitempty"`

	// PendingTimeout is how long an invocation stays pending before it expires and another one may be made, 1s
	// to 1h. It should be longer than the slowest boot.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?[hm]|[0-9]{1,8}([.][0-9]{1,6})?s|[0-9]{1,8}([.][0-9]{1,3})?ms)+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="pendingTimeout must be a duration from 1s to 1h, written like 60s, 1m30s or 1.5s"
	PendingTimeout *metav1.Duration `json:"pendingTimeout,omitempty"`

	// HeartbeatTimeout is how old the last heartbeat of a healthy worker may be, 1s to 1h. It should be longer than
	// the longest time for which a busy worker does not beat.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?[hm]|[0-9]{1,8}([.][0-9]{1,6})?s|[0-9]{1,8}([.][0-9]{1,3})?ms)+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="heartbeatTimeout must be a duration from 1s to 1h, written like 30s, 1m30s or 1.5s"
	HeartbeatTimeout *metav1.Duration `json:"heartbeatTimeout,omitempty"`

	// Handshake is permissive where workers may register without an invocation, required where they may not.
	//
	// +optional
	Handshake *Handshake `json:"handshake,omitempty"`
}

// StartMode is how a function is started, in pgflow's words.
//
// +kubebuilder:validation:Enum=http;process
type StartMode string

const (
	// StartModeHTTP is a function that a request starts.
	StartModeHTTP StartMode = "http"
	// StartModeProcess is a function whose process starts by itself; the operator only shows it.
	StartModeProcess StartMode = "process"
)

// Handshake says whether a worker may register without an invocation.
//
// +kubebuilder:validation:Enum=permissive;required
type Handshake string

const (
	// HandshakePermissive lets workers register without an invocation.
	HandshakePermissive Handshake = "permissive"
	// HandshakeRequired makes the database refuse workers without one.
	HandshakeRequired Handshake = "required"
)

// DeletionPolicy says what happens to the registration when its object is deleted.
//
// +kubebuilder:validation:Enum=Disable;Orphan
type DeletionPolicy string

const (
	// DeletionPolicyDisable sets enabled = false in the registration.
	DeletionPolicyDisable DeletionPolicy = "Disable"
	// DeletionPolicyOrphan leaves the registration as it is.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)

// Endpoint is where functions are reached.
type Endpoint struct {
	// URL is what stands before the function's name: a request goes to <url>/<function name>. It is an http or https
	// URL, without user, query and fragment, for example http://supabase-kong:8000/functions/v1.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",message="endpoint.url must be an http:// or https:// URL with a host, like http://supabase-kong:8000/functions/v1"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || url(self).getPort() == '' || (size(url(self).getPort()) <= 5 && int(url(self).getPort()) >= 1 && int(url(self).getPort()) <= 65535)",message="the port of endpoint.url must be from 1 to 65535"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/]*@')",message="endpoint.url must not contain a user or password: put the key into a Secret and name it in authSecretRef"
	// +kubebuilder:validation:XValidation:rule="!self.contains('?') && !self.contains('#')",message="endpoint.url must have no query and no fragment, because the function's name is appended to its path"
	URL string `json:"url"`
}

// SecretKeyRef names one key of a Secret in the object's own namespace.
type SecretKeyRef struct {
	// Name is the Secret's name.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be the name of a Secret in this object's namespace: lower case letters, digits, '-' and '.'"
	Name string `json:"name"`

	// Key is the key in the Secret's data.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be a key of the Secret's data: letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}
