package postgres

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// connectTimeout bounds the time to connect, unless the URL has connect_timeout.
const connectTimeout = 5 * time.Second

// parse parses the options. Its errors contain neither the URL nor the error of the
// parser: both may contain a password.
func parse(options Options) (*pgx.ConnConfig, error) {
	if options.URL == "" {
		return nil, errors.New("there is no URL of a PostgreSQL database")
	}
	if options.MaxConnections < 0 {
		return nil, fmt.Errorf("a pool cannot have %d connections", options.MaxConnections)
	}
	config, err := pgx.ParseConfig(options.URL)
	if err != nil {
		return nil, errors.New("the URL of the PostgreSQL database cannot be understood, or names a file that cannot be read; " +
			"it is postgres://user@host:port/database?sslmode=verify-full, with special characters percent-encoded, or key=value words")
	}
	if config.Database == "" {
		config.Database = config.User // as libpq does
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
		config.DialFunc = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	// Bounds of the server, for statements that this process cannot cancel. Values in
	// the URL take precedence.
	for name, value := range map[string]string{
		"application_name":                    "thv-registry",
		"statement_timeout":                   "60s",
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "60s",
	} {
		if _, ok := config.RuntimeParams[name]; !ok {
			config.RuntimeParams[name] = value
		}
	}
	return config, nil
}

// address names the host and the database in errors.
func address(config *pgx.ConnConfig) string {
	if strings.HasPrefix(config.Host, "/") {
		return config.Host
	}
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

// setPassword reads the password from the file, if there is one.
func setPassword(c *pgx.ConnConfig, file string) error {
	if file == "" {
		return nil
	}
	password, err := netguard.ReadSecret(file)
	if err != nil {
		return passwordError{err}
	}
	c.Password = password
	return nil
}

// passwordError: the password cannot be read.
type passwordError struct{ error }

func (e passwordError) Error() string { return "read the password of the database: " + e.error.Error() }
func (e passwordError) Unwrap() error { return e.error }
