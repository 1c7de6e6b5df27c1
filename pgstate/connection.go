package pgstate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ErrConnection: a connection string, or one of its parts, is not usable. The
// text after it says what is wrong and never repeats what was given, which may
// hold a password in the wrong place.
var ErrConnection = errors.New("invalid database connection")

const (
	defaultPort           = 5432
	defaultApplication    = "pgflow-operator"
	defaultConnectTimeout = 5 * time.Second
	maxConnectTimeout     = 60 * time.Second
	// maxPart bounds each part of a connection, maxURL all of it.
	maxPart = 1024
	maxURL  = 8192
)

// sslMode is libpq's word for how a connection is encrypted.
type sslMode string

const (
	sslDisable    sslMode = "disable"     // plain text
	sslPrefer     sslMode = "prefer"      // TLS without verification, else plain text; the default, as everywhere
	sslRequire    sslMode = "require"     // TLS without verification
	sslVerifyFull sslMode = "verify-full" // TLS, verified against the system's roots
)

// Connection names a database and the credentials for it, completely: nothing
// is filled in from the environment, from files or from the operating system's
// user. It never prints its password. Connections are values; Key tells
// whether two are the same.
type Connection struct {
	host        string
	port        uint16
	user        string
	password    string
	database    string
	sslMode     sslMode
	application string
	timeout     time.Duration
}

// NewConnection returns the connection with these parts; port 0 is 5432. The
// errors are ErrConnection.
func NewConnection(host string, port uint16, user, password, database string) (Connection, error) {
	if port == 0 {
		port = defaultPort
	}
	c := Connection{
		host: normalHost(host), port: port, user: user, password: password, database: database,
		sslMode: sslPrefer, application: defaultApplication, timeout: defaultConnectTimeout,
	}
	if err := c.validate(); err != nil {
		return Connection{}, err
	}
	return c, nil
}

// validate looks at the parts that NewConnection and ParseURL share.
func (c Connection) validate() error {
	switch {
	case c.host == "":
		return invalid("it must name a host")
	case strings.ContainsAny(c.host, `/\@`):
		return invalid("the host must be a name or an address; sockets are not supported")
	case strings.ContainsRune(c.host, ','):
		return invalid("it must name exactly one host")
	case strings.ContainsFunc(c.host, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return invalid("the host contains a space or a control character")
	case c.user == "":
		return invalid("it must name a user")
	case c.password == "":
		return invalid("it must contain a password")
	case c.database == "":
		return invalid("it must name a database")
	}
	for _, part := range []string{c.host, c.user, c.password, c.database, c.application} {
		// A NUL would end the part early in the protocol's start-up message.
		if strings.ContainsRune(part, 0) {
			return invalid("it contains a NUL character")
		}
		if len(part) > maxPart {
			return invalid("a part of it is too long")
		}
	}
	return nil
}

// invalid returns an ErrConnection. The message is a constant of this package.
func invalid(message string) error {
	return fmt.Errorf("%w: %s", ErrConnection, message)
}

// normalHost writes equal hosts equally: lower case, addresses in their short
// form and without brackets.
func normalHost(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			host = inner
		}
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.String()
	}
	return strings.ToLower(host)
}

// keySecret makes keys meaningless outside this process, so that one in a log
// cannot be used to guess a password.
var keySecret = rand.Text()

// Key returns an opaque hash of everything, password included. Within a
// process equal connections, and only they, have equal keys; other processes
// have other keys.
func (c Connection) Key() string {
	sum := hmac.New(sha256.New, []byte(keySecret))
	for _, part := range []string{
		c.host, strconv.Itoa(int(c.port)), c.user, c.password, c.database,
		string(c.sslMode), c.application, c.timeout.String(),
	} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		sum.Write(length[:])
		sum.Write([]byte(part))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Identity returns host:port/database: what makes two connections lead to the
// same database, whoever connects.
func (c Connection) Identity() string {
	host := strings.TrimSuffix(c.host, ".")
	return net.JoinHostPort(host, strconv.Itoa(int(c.port))) + "/" + c.database
}

// String returns the connection as a URL without its password.
func (c Connection) String() string {
	u := url.URL{
		Scheme: "postgres",
		User:   url.User(c.user),
		Host:   net.JoinHostPort(c.host, strconv.Itoa(int(c.port))),
		Path:   "/" + c.database,
	}
	return u.String()
}

// Format prints String for every verb, so that %+v and %#v hide the password too.
func (c Connection) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(c.String()))
}

// LogValue logs String.
func (c Connection) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText encodes String, for encoders that do not ask for it.
func (c Connection) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
