package credentials

import (
	"errors"
	"fmt"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Problem is what a person must mend before an object can be served; found
// with errors.As. It goes away by itself when the Secret, the object or the
// operator's flags change.
type Problem struct {
	// Reason is the condition's reason, a constant of v1alpha1.
	Reason string
	// Message says what is wrong and what to do. It holds nothing of a Secret's
	// content.
	Message string
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

func problem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// connectionFault is what pgstate says is wrong with a connection string, whose
// errors promise not to repeat any of it.
func connectionFault(err error) string {
	if errors.Is(err, pgstate.ErrConnection) {
		return err.Error()
	}
	return pgstate.ErrConnection.Error()
}
