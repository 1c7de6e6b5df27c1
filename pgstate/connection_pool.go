package pgstate

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolConfig returns a new configuration for a pool of this connection, or,
// by its ConnConfig, for single connections. Sizes are the driver's defaults.
// It works through a transaction pooler: statements are neither prepared nor
// cached, and depend on no session setting. No PG* environment variable and no
// file of the driver's has any influence on it.
func (c Connection) PoolConfig() (*pgxpool.Config, error) {
	if baseErr != nil {
		return nil, baseErr
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	config := baseConfig.Copy()
	conn := config.ConnConfig
	conn.Host, conn.Port = c.host, c.port
	conn.User, conn.Password, conn.Database = c.user, c.password, c.database
	conn.ConnectTimeout = c.timeout
	conn.DialFunc = (&net.Dialer{Timeout: c.timeout}).DialContext
	conn.RuntimeParams = map[string]string{"application_name": c.application}
	conn.TLSConfig, conn.Fallbacks = c.encryption()
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn.StatementCacheCapacity = 0
	conn.DescriptionCacheCapacity = 0
	return config, nil
}

// encryption returns how to connect first (nil: in plain text), and how else
// if the server does not want that.
func (c Connection) encryption() (*tls.Config, []*pgconn.FallbackConfig) {
	if c.sslMode == sslDisable {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if _, err := netip.ParseAddr(c.host); err != nil || c.sslMode == sslVerifyFull {
		config.ServerName = c.host
	}
	if c.sslMode == sslVerifyFull {
		return config, nil
	}
	// That is what prefer and require mean for every PostgreSQL client.
	config.InsecureSkipVerify = true
	if c.sslMode == sslRequire {
		return config, nil
	}
	return config, []*pgconn.FallbackConfig{{Host: c.host, Port: c.port}}
}

// baseConfig is what PoolConfig fills in. The driver wants its configurations
// made by its parser, and that one mixes in the environment and files, for
// tenants' connections too. So it parses once, this text alone, and everything
// that it could have taken from elsewhere is named here or replaced above.
var baseConfig, baseErr = parseBase()

const baseText = `host=unused port=1 user=unused password=unused database=unused ` +
	`passfile='' servicefile='' sslmode=disable sslkey='' sslcert='' sslrootcert='' sslpassword='' ` +
	`sslcertmode=allow sslsni='' sslnegotiation='' target_session_attrs=any ` +
	`min_protocol_version='' max_protocol_version='' channel_binding='' require_auth='' ` +
	`connect_timeout=1 application_name='' timezone='' options=''`

func parseBase() (*pgxpool.Config, error) {
	// The one setting that text cannot override: with PGSERVICE set, the parser
	// reads a service file and fails without one. This runs before main does.
	const service = "PGSERVICE"
	if value, ok := os.LookupEnv(service); ok {
		if err := os.Unsetenv(service); err != nil {
			return nil, fmt.Errorf("set the driver's environment aside: %w", err)
		}
		defer func() { _ = os.Setenv(service, value) }() // it was a valid pair
	}
	config, err := pgxpool.ParseConfig(baseText)
	if err != nil {
		return nil, fmt.Errorf("prepare connection settings: %w", err)
	}
	return config, nil
}
