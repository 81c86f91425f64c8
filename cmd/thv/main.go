// Command thv runs MCP tool servers as isolated workloads behind a local gateway.
package main

import (
	"os"

	"github.com/toolhaven/toolhaven/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
