// Command thv-registry serves a catalog of MCP tool servers over HTTP.
package main

import (
	"os"

	"github.com/toolhaven/toolhaven/internal/registry/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
