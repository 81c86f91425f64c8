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
	shortcut := ""
	if len(os.Args) > 1 {
		shortcut = os.Args[1]
	}
	ctx := context.Background()
	line, err := guest.OpenLine(ctx, shortcut)
	if err != nil {
		return err
	}
	return guest.Serve(ctx, line, os.Stderr)
}
