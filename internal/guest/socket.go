package guest

import (
	"context"
	"fmt"
	"net"
)

// ConnectSocket opens a line to a guest that serves a Unix socket ([ServeSocket]). It fails
// when there is no guest yet.
func ConnectSocket(ctx context.Context, path string) (*Line, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to the server's container: %w", err)
	}
	line, err := newLine(conn, writeEnd{conn.(*net.UnixConn)})
	if err != nil {
		conn.Close()
	}
	return line, err
}

// writeEnd is the sending side of a connection.
type writeEnd struct{ conn *net.UnixConn }

// Close ends the sending side: the guest then ends as [Line.HangUp] says.
func (w writeEnd) Close() error { return w.conn.CloseWrite() }
