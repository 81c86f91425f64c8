package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addSpeed adds tools that measure connections.
func addSpeed(s *mcp.Server) {
	add(s, "connect", "connects a number of times and returns the median of the microseconds until the first byte", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		Address string `json:"address"`
		Times   int    `json:"times"`
	}) (string, error) {
		var took []time.Duration
		for range in.Times {
			begin := time.Now()
			c, err := dialTCP(ctx, in.Address)
			if err != nil {
				return "", err
			}
			_, err = io.ReadFull(c, make([]byte, 1))
			took = append(took, time.Since(begin))
			c.Close()
			if err != nil {
				return "", err
			}
		}
		slices.Sort(took)
		return fmt.Sprint(took[len(took)/2].Microseconds()), nil
	})
	add(s, "receive", "receives until the end and returns megabytes per second", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		Address string `json:"address"`
	}) (string, error) {
		c, err := dialTCP(ctx, in.Address)
		if err != nil {
			return "", err
		}
		defer c.Close()
		begin := time.Now()
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, 256<<10))
		return fmt.Sprintf("%.1f", float64(n)/1e6/time.Since(begin).Seconds()), err
	})
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Minute}
	return d.DialContext(ctx, "tcp", address)
}
