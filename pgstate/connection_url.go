package pgstate

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ParseURL reads postgres://user:password@host:port/database?key=value. All of
// user, password, host and database must be there, one host only; the port is
// 5432 if absent. Keys are application_name, connect_timeout (1 to 60 seconds)
// and sslmode (disable, prefer, require, verify-full); any other is refused,
// because a driver reads files or redirects the connection for some of them.
// Space around the URL is ignored, as Secrets often end in a newline. Errors
// are ErrConnection and never repeat any of raw.
func ParseURL(raw string) (Connection, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL {
		return Connection{}, invalid("it is too long")
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The cause quotes its input.
		return Connection{}, invalid("it is not a URL of the form postgres://user:password@host:port/database; " +
			"characters with a meaning in URLs must be percent-encoded in the user, password and database")
	}
	switch {
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return Connection{}, invalid("it must begin with postgres:// or postgresql://")
	case u.Opaque != "":
		return Connection{}, invalid("it must begin with postgres:// or postgresql://")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return Connection{}, invalid("it contains a #, which must be percent-encoded as %23")
	case u.User == nil:
		return Connection{}, invalid("it must name a user and contain a password")
	}
	port, err := parsePort(u.Port())
	if err != nil {
		return Connection{}, err
	}
	database, err := parseDatabase(u)
	if err != nil {
		return Connection{}, err
	}
	password, _ := u.User.Password()
	c, err := NewConnection(u.Hostname(), port, u.User.Username(), password, database)
	if err != nil {
		return Connection{}, err
	}
	if err := c.applyKeys(u.RawQuery); err != nil {
		return Connection{}, err
	}
	if err := c.validate(); err != nil { // again: with the keys' values
		return Connection{}, err
	}
	return c, nil
}

// parsePort reads a port; none is 0.
func parsePort(text string) (uint16, error) {
	if text == "" {
		return 0, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, invalid("the port must be a number from 1 to 65535")
	}
	return uint16(port), nil
}

// parseDatabase reads the path, which is one segment, percent-decoded.
func parseDatabase(u *url.URL) (string, error) {
	segment := strings.TrimPrefix(u.EscapedPath(), "/")
	if strings.ContainsRune(segment, '/') {
		return "", invalid("the path must be the database's name alone; a / in it must be percent-encoded as %2F")
	}
	database, err := url.PathUnescape(segment)
	if err != nil {
		return "", invalid("the database's name is not percent-encoded correctly")
	}
	return database, nil
}

// applyKeys reads the part after the question mark.
func (c *Connection) applyKeys(rawQuery string) error {
	keys, err := url.ParseQuery(rawQuery)
	if err != nil {
		return invalid("the parameters after ? are not percent-encoded correctly")
	}
	for key, values := range keys {
		if len(values) != 1 {
			return invalid("a parameter after ? is given twice")
		}
		if err := c.applyKey(key, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Connection) applyKey(key, value string) error {
	switch key {
	case "application_name":
		if value == "" {
			return invalid("application_name is empty")
		}
		c.application = value
	case "connect_timeout":
		seconds, err := strconv.ParseUint(value, 10, 16)
		timeout := time.Duration(seconds) * time.Second
		if err != nil || timeout < time.Second || timeout > maxConnectTimeout {
			return invalid("connect_timeout must be a number of seconds from 1 to 60")
		}
		c.timeout = timeout
	case "sslmode":
		switch mode := sslMode(value); mode {
		case sslDisable, sslPrefer, sslRequire, sslVerifyFull:
			c.sslMode = mode
		default:
			return invalid("sslmode must be disable, prefer, require or verify-full")
		}
	default:
		// The key is not repeated: with a ? in a password it is the password's end.
		return invalid("it has a parameter that is not supported; application_name, connect_timeout and sslmode are " +
			"(a ? in the password must be percent-encoded as %3F)")
	}
	return nil
}
