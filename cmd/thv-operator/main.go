// Command thv-operator runs tool servers on a Kubernetes cluster.
package main

import (
	"os"

	"github.com/toolhaven/toolhaven/internal/operator/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
