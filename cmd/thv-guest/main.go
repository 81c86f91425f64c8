// Command thv-guest runs as PID 1 in the containers of Toolhaven's workloads
// and does there what the gateway asks for; see package guest. Where it starts
// as root it sets up the container first; see package guest/setup. Nobody starts
// it by hand.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/guest/setup"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "thv-guest:", err)
		os.Exit(1)
	}
}

func run() error {
	first, args, err := guest.ParseSetUp(os.Args[1:])
	if err != nil {
		return err
	}
	if first != nil {
		return setup.Run(first, append([]string{os.Args[0]}, args...))
	}
	shortcut := ""
	if len(args) > 0 {
		shortcut = args[0]
	}
	ctx := context.Background()
	line, err := guest.OpenLine(ctx, shortcut)
	if err != nil {
		return err
	}
	return guest.Serve(ctx, line, os.Stderr)
}
