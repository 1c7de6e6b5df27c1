package delivery

import (
	"context"
	"net/url"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// Request is one reserved invocation that is to be sent.
type Request struct {
	// Object is whose request it is: named in logs, and what Forget must name.
	Object types.NamespacedName
	// Database is pgstate's Connection.Identity. Together with Function it
	// names what at most one delivery is in flight for.
	Database string
	// Function is the registration's name as the database has it.
	Function string
	// InvocationID is the reserved id.
	InvocationID uuid.UUID
	// ExpiresIn is what is left of the invocation by the database's clock.
	ExpiresIn time.Duration
	// Wanted is asked before each attempt whether the id may still start a
	// worker, for all that is known. It must not block.
	Wanted func() bool
	// Target is asked before each attempt where it goes, so that a correction
	// counts from the next attempt on; false: nothing may be sent for now, and
	// it is asked again later. It must not block.
	Target func() (Target, bool)
	// Resend is asked before an id whose delivery is uncertain is sent once
	// more: does the function take part, and is the id still wanted. It must not
	// block.
	Resend func() bool
	// Dismiss tells the database that the invocation was refused. It must end
	// when its context does.
	Dismiss func(ctx context.Context, reason string) error
	// Progress is called while the delivery goes on when what it meets has
	// changed, with Outcome Sending. It must not block.
	Progress func(Result)
	// Done is called exactly once when the delivery has ended, whatever the
	// outcome. It must not block. It is not called for a request that Deliver
	// ignored because its id is known already.
	Done func(Result)
}

// Target is where attempts go.
type Target struct {
	// Endpoint is the functions URL; the function's name is appended.
	Endpoint *url.URL
	// Key goes to Endpoint as bearer token.
	Key Secret
}

// Outcome is what became of a delivery.
type Outcome string

const (
	// Sending: the delivery goes on. Status and Message tell what the last
	// attempt met, if there was one.
	Sending Outcome = "Sending"
	// Delivered: answered with 2xx or 409. Whether a worker starts is in the
	// database.
	Delivered Outcome = "Delivered"
	// Refused: refused before a worker could take it, and dismissed with Reason.
	// If the database could not be told, the invocation stays pending until it
	// expires.
	Refused Outcome = "Refused"
	// Unknown: it may have arrived; it stays pending.
	Unknown Outcome = "Unknown"
	// NotDelivered: no connection came about before the invocation expired.
	NotDelivered Outcome = "NotDelivered"
	// Abandoned: this process shuts down, or a newer id took its place, or the
	// function was forgotten, or the id is no longer wanted. It may or may not
	// have arrived.
	Abandoned Outcome = "Abandoned"
)

// Reasons that a Refused result carries, besides http_<status>.
const (
	ReasonAuthRejected  = "auth_rejected"
	ReasonRouteNotFound = "route_not_found"
	ReasonRedirected    = "redirected"
	ReasonInvalidName   = "invalid_name"
)

// Result is what is known of a delivery. It holds no credential.
type Result struct {
	InvocationID uuid.UUID
	Outcome      Outcome
	// Reason is what a Refused invocation is dismissed with; else empty.
	Reason string
	// Status is the HTTP status code of the last attempt; 0: it got none.
	Status int
	// Message says what the last attempt met: one field of a JSON answer or the
	// connection's error; printable, at most 256 characters.
	Message string
	// Attempts counts the requests begun.
	Attempts int
}
