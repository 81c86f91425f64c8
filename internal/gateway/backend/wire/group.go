package wire

import "github.com/toolhaven/toolhaven/internal/taskgroup"

// Group counts the goroutines and calls that must end before their owner is closed.
type Group = taskgroup.Group
