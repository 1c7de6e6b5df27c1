package edgeruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind is the generation of worker library that a function's isolates run.
type Kind string

const (
	// Participating takes part in the handshake: receive, initialise, accept, and one loop per admitted id.
	Participating Kind = "participating"
	// Legacy014 answers `started` at once, starts in the background, and says `running` ever after, also when the
	// start failed.
	Legacy014 Kind = "legacy-0.14"
	// Legacy015 answers when its start has ended, 500 when it failed, and replaces a deprecated worker in place.
	Legacy015 Kind = "legacy-0.15"
)

// Mode is what the gateway does with a request for a function.
type Mode string

const (
	// ModeServe hands the request to an isolate and returns its answer.
	ModeServe Mode = "serve"
	// ModeStatus answers FunctionConfig.Status itself; no isolate sees the request.
	ModeStatus Mode = "status"
	// ModeHang never answers and hands the request to nobody; it ends with the gateway's own timeout.
	ModeHang Mode = "hang"
	// ModeDrop closes the connection at once; no isolate sees the request.
	ModeDrop Mode = "drop"
	// ModeLost lets an isolate do the work, then closes the connection without an answer.
	ModeLost Mode = "lost"
)

// Hold is the point at which an isolate waits until the function is released.
type Hold string

const (
	// HoldNothing lets starts run through.
	HoldNothing Hold = ""
	// HoldBoot holds isolates at the end of their boot: they are not active and have seen no request.
	HoldBoot Hold = "boot"
	// HoldInit holds isolates at the end of initialisation: after the request was received, before the worker
	// registers.
	HoldInit Hold = "init"
)

// Millis is a duration whose JSON form is a whole number of milliseconds.
type Millis time.Duration

// Duration returns m as a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) }

// MarshalJSON writes m in whole milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(m.Duration().Milliseconds())
}

// UnmarshalJSON reads a number of milliseconds between 0 and a day.
func (m *Millis) UnmarshalJSON(data []byte) error {
	var ms float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return fmt.Errorf("milliseconds: %w", err)
	}
	d := time.Duration(ms * float64(time.Millisecond))
	if ms < 0 || d > 24*time.Hour {
		return fmt.Errorf("milliseconds: %v is not between 0 and a day", ms)
	}
	*m = Millis(d)
	return nil
}

// FunctionConfig is everything that can be set for one function, at start and while it runs. Begin with
// DefaultFunction; in JSON, what is left out has its default (PUT) or stays as it is (PATCH).
//
// The counting fields (FailStarts, ModeCount, LoseAcceptAnswers) count down as they are used up, so that the present
// configuration always says what is still to come.
type FunctionConfig struct {
	// Kind counts for isolates booted from now on; those that exist keep theirs, as after a deployment.
	Kind Kind `json:"kind"`
	// Queue that workers register for; empty: the function's name.
	Queue string `json:"queue"`
	// Pods is the number of independent edge runtimes behind the gateway, which takes them in turn. An isolate that
	// is active in one is unknown to the others.
	Pods int `json:"pods"`

	// Boot is the time from a cold request to an active isolate.
	Boot Millis `json:"bootMs"`
	// Init is the time between the request's receipt and the worker's registration.
	Init Millis `json:"initMs"`
	// WallClock is an isolate's life from the end of its boot; 0: no end.
	WallClock Millis `json:"wallClockMs"`
	// NoBeforeUnload: isolates end without `beforeunload`, as when a CPU limit kills them.
	NoBeforeUnload bool `json:"noBeforeUnload"`

	// Heartbeat is the time between two heartbeats of a worker.
	Heartbeat Millis `json:"heartbeatMs"`
	// StallHeartbeat keeps loops from beating while they live, as when all their slots are busy.
	StallHeartbeat bool `json:"stallHeartbeat"`

	// Hold keeps starts waiting until the function is released or Hold is set otherwise.
	Hold Hold `json:"hold"`
	// FailStarts is how many of the next initialisations fail.
	FailStarts int `json:"failStarts"`
	// FailReason is what a participating isolate dismisses a failed initialisation with.
	FailReason string `json:"failReason"`
	// LoseAcceptAnswers is how many of the next answers of accept_invocation are lost on the way back.
	LoseAcceptAnswers int `json:"loseAcceptAnswers"`

	// Duplicates is how many more copies of each request are delivered, at the same time.
	Duplicates int `json:"duplicates"`

	// Mode is what the gateway does, for ModeCount requests (0: until changed), then it serves.
	Mode      Mode `json:"mode"`
	ModeCount int  `json:"modeCount"`
	// Status, Location (of a redirect) and Body (JSON or not) are what ModeStatus answers.
	Status   int    `json:"status"`
	Location string `json:"location"`
	Body     string `json:"body"`
	// VerifyJWT makes the main service refuse keys that are no JWT, before any isolate sees the request.
	VerifyJWT bool `json:"verifyJwt"`
	// Local makes the handler skip authentication, as the library does when it believes to run in the CLI.
	Local bool `json:"local"`
}

// DefaultFunction is a participating function as the packagings of Supabase configure it: a wall clock of 60 s,
// heartbeats 5 s apart, and no boot time.
func DefaultFunction() FunctionConfig {
	return FunctionConfig{
		Kind:       Participating,
		Pods:       1,
		WallClock:  Millis(60 * time.Second),
		Heartbeat:  Millis(5 * time.Second),
		FailReason: "start_failed",
		Mode:       ModeServe,
		Status:     500,
	}
}

// UnmarshalJSON reads a configuration over DefaultFunction and refuses unknown fields and values.
func (c *FunctionConfig) UnmarshalJSON(data []byte) error {
	merged, err := decodeOver(DefaultFunction(), data)
	if err != nil {
		return err
	}
	*c = merged
	return nil
}

// decodeOver returns base with the fields that data names replaced.
func decodeOver(base FunctionConfig, data []byte) (FunctionConfig, error) {
	type plain FunctionConfig // without UnmarshalJSON
	merged := plain(base)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&merged); err != nil {
		return FunctionConfig{}, fmt.Errorf("%w: %w", errConfiguration, err)
	}
	return FunctionConfig(merged), FunctionConfig(merged).validate()
}

// Bounds of what one function may ask for; a typo must not fork ten thousand runtimes.
const (
	maxPods       = 64
	maxDuplicates = 64
	minHeartbeat  = Millis(10 * time.Millisecond)
)

// errConfiguration: what was asked for cannot be.
var errConfiguration = errors.New("function configuration")

func (c FunctionConfig) validate() error {
	var problems []error
	complain := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	complain(c.Kind == Participating || c.Kind == Legacy014 || c.Kind == Legacy015, "kind %q is unknown", c.Kind)
	switch c.Mode {
	case ModeServe, ModeStatus, ModeHang, ModeDrop, ModeLost:
	default:
		complain(false, "mode %q is unknown", c.Mode)
	}
	complain(c.Hold == HoldNothing || c.Hold == HoldBoot || c.Hold == HoldInit, "hold %q is unknown", c.Hold)
	complain(c.Pods >= 1 && c.Pods <= maxPods, "pods %d is not between 1 and %d", c.Pods, maxPods)
	complain(c.Duplicates >= 0 && c.Duplicates <= maxDuplicates,
		"duplicates %d is not between 0 and %d", c.Duplicates, maxDuplicates)
	complain(c.Heartbeat >= minHeartbeat, "heartbeatMs is below %v", minHeartbeat.Duration())
	complain(c.Status >= 200 && c.Status <= 599, "status %d is not between 200 and 599", c.Status)
	complain(c.FailStarts >= 0 && c.ModeCount >= 0 && c.LoseAcceptAnswers >= 0, "a count is negative")
	complain(c.Boot >= 0 && c.Init >= 0 && c.WallClock >= 0, "a time is negative")
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", errConfiguration, errors.Join(problems...))
}

// Options configure a Server. Its JSON form is what the program reads; fields left out have the default named here.
type Options struct {
	// DatabaseURL of the one thing that runtimes share. Nothing connects before the first request needs it.
	DatabaseURL string `json:"databaseUrl"`
	// Listen is the gateway's address; default 127.0.0.1:0.
	Listen string `json:"listen,omitempty"`
	// ControlListen is the control API's address; default 127.0.0.1:0. It has no authentication: keep it on loopback.
	ControlListen string `json:"controlListen,omitempty"`
	// Key that handlers expect; empty: none configured, and every request is answered 500.
	Key string `json:"key"`
	// PoolSize is the number of connections for all runtimes together; default 8.
	PoolSize int32 `json:"poolSize,omitempty"`
	// BatchHeartbeats beats for all workers together, in statements of up to 1,000 rows, instead of one each.
	BatchHeartbeats bool `json:"batchHeartbeats,omitempty"`
	// GatewayTimeout is after how long the gateway answers 504; default 150 s.
	GatewayTimeout Millis `json:"gatewayTimeoutMs,omitempty"`
	// LogSize is how many requests the log keeps, the newest; default 100,000.
	LogSize int `json:"logSize,omitempty"`
	// Default, when set, is what a function that nobody configured is; else such a request is answered 404.
	Default *FunctionConfig `json:"default,omitempty"`
	// Functions that exist from the beginning, by name.
	Functions map[string]FunctionConfig `json:"functions,omitempty"`
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.ControlListen == "" {
		o.ControlListen = "127.0.0.1:0"
	}
	if o.PoolSize == 0 {
		o.PoolSize = 8
	}
	if o.GatewayTimeout == 0 {
		o.GatewayTimeout = Millis(150 * time.Second)
	}
	if o.LogSize == 0 {
		o.LogSize = 100_000
	}
	return o
}
