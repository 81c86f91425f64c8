// Command thv-guest runs as PID 1 in the containers of Toolhaven's workloads
// and does there what the gateway asks for; see package guest. Nobody starts it
// by hand.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/toolhaven/toolhaven/internal/guest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "thv-guest:", err)
		os.Exit(1)
	}
}

func run() error {
	line, err := guest.StandardStreams()
	if err != nil {
		return err
	}
	return guest.Serve(context.Background(), line, os.Stderr)
}
