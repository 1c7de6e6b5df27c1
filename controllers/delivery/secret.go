package delivery

import (
	"fmt"
	"io"
	"log/slog"
	"unique"
)

// redacted is what every rendering of a Secret shows.
const redacted = "[redacted]"

// Secret is a key that shows itself only to Reveal: fmt, JSON, slog and logr
// print "[redacted]". Equal keys compare equal. The zero Secret is empty.
//
// The value is behind a pointer because fmt does not ask the methods of values
// in unexported fields: it would print a plain string there.
type Secret struct {
	handle unique.Handle[string]
}

// NewSecret returns value as a Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{handle: unique.Make(value)}
}

// Reveal returns the key itself. Only the code that sends it calls this.
func (s Secret) Reveal() string {
	if s.Empty() {
		return ""
	}
	return s.handle.Value()
}

// Empty reports whether there is no key.
func (s Secret) Empty() bool { return s == Secret{} }

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (Secret) GoString() string { return redacted }

// Format writes "[redacted]" whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON returns the string "[redacted]". There is no UnmarshalJSON: a
// Secret does not travel as JSON.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns "[redacted]", also for map keys and other encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "[redacted]" to slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalLog returns "[redacted]" to logr.
func (Secret) MarshalLog() any { return redacted }
