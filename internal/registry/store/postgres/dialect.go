package postgres

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolhaven/toolhaven/internal/registry/store/sqlstore"
)

func dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		Placeholder: func(n int) string { return "$" + strconv.Itoa(n) },
		ForUpdate:   " FOR UPDATE",
		// Not now(), the time at which the transaction began: it may have waited since.
		Now:      "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		Greatest: "greatest",
		Fault:    fault,
	}
}

// fault classifies by SQLSTATE (PostgreSQL manual, appendix A).
func fault(err error) sqlstore.Fault {
	var server *pgconn.PgError
	switch {
	case errors.As(err, new(passwordError)), errors.As(err, new(*pgconn.ConnectError)):
		return sqlstore.Unavailable // no connection can be made
	case errors.As(err, &server):
		return faultOf(server.Code)
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, pgconn.ErrConnClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.As(err, new(*net.OpError)):
		return sqlstore.Lost
	}
	return sqlstore.Other
}

func faultOf(code string) sqlstore.Fault {
	switch code {
	case "53100": // disk full
		return sqlstore.Full
	case "40001", "40P01": // serialization failure, deadlock
		return sqlstore.Conflict
	case "57P01", "57P02", "57P03", "57P05", // shut down, crashed, starting, idle too long
		"25P03": // idle in a transaction for too long
		return sqlstore.Lost
	case "55P03", "57014", "25006", "58000", "58030": // lock or statement timeout, read-only, system and I/O errors
		return sqlstore.Unavailable
	}
	switch {
	case strings.HasPrefix(code, "08"): // connection exceptions
		return sqlstore.Lost
	case strings.HasPrefix(code, "53"): // insufficient resources
		return sqlstore.Unavailable
	}
	return sqlstore.Other
}

// permanent reports whether waiting for the database cannot help: it responded with a
// refusal.
func permanent(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	return strings.HasPrefix(server.Code, "28") || // authorization
		server.Code == "3D000" // no such database
}
