package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Exit codes. They are part of the command's contract and are documented by
// `thv help exit-codes`.
const (
	exitOK          = 0
	exitFailure     = 1 // what was asked for did not happen
	exitUsage       = 2 // the command line or a file it names is wrong
	exitNoEngine    = 3 // no container engine answers
	exitNotFound    = 4 // no such workload, group, server or image
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes of thv:

  0    done
  1    what was asked for did not happen; the message says why
  2    the command line, or a file that it names, is wrong
  3    no container engine answers
  4    there is no such workload, group, server or image
  130  interrupted

A command given several names does what it can for all of them, and ends with 1
when one of them failed.`

// usageError is a fault of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// asUsage marks err as a fault of the command line; nil stays nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// errReported: the fault has been shown already. With one name, it is what
// happened to it; with several, some of them failed.
type errReported struct{ err error }

func (e *errReported) Error() string { return e.err.Error() }
func (e *errReported) Unwrap() error { return e.err }

// errToolFailed: a tool that was called answered with an error of its own.
var errToolFailed = errors.New("the tool reported an error")

func exitCode(err error) int {
	var u *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &u):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, container.ErrUnavailable):
		return exitNoEngine
	case errors.Is(err, workload.ErrNotFound), errors.Is(err, workload.ErrGroupNotFound),
		errors.Is(err, registry.ErrNotFound), errors.Is(err, container.ErrNotFound):
		return exitNotFound
	default:
		return exitFailure
	}
}

// sentence is an error as a person reads it. Several faults are listed.
func sentence(err error) string {
	text := strings.TrimRight(plaintext.Lines(err.Error()), "\n") // servers have their say in it
	if strings.HasPrefix(text, "Error: ") {
		return text
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 1 && isList(err) {
		return "Error:\n  " + strings.Join(lines, "\n  ")
	}
	return "Error: " + text
}

// isList tells several faults, joined, from one fault with several lines.
func isList(err error) bool {
	var u *usageError
	if errors.As(err, &u) {
		err = u.err
	}
	return fmt.Sprintf("%T", err) == "*errors.joinError"
}
