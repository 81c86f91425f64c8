package base

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Exit codes. They are part of the command's contract and are documented by
// `thv help exit-codes`.
const (
	ExitOK          = 0
	ExitFailure     = 1 // any other error
	ExitUsage       = 2 // the command line or a file it names is wrong
	ExitNoEngine    = 3 // no container engine responds
	ExitNotFound    = 4 // no such workload, group, server, image or secret
	ExitInterrupted = 130
)

// ExitCodesHelp is the text of `thv help exit-codes`.
const ExitCodesHelp = `Exit codes of thv:

  0    done
  1    the command failed; the message gives the reason
  2    the command line, or a file that it names, is wrong
  3    no container engine responds
  4    there is no such workload, group, server, image or secret
  130  interrupted

A command given several names does what it can for all of them, and ends with 1
when one of them failed.`

// usageError is an error of the command line, or of a file that it names.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usage returns an error with ExitUsage.
func Usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// AsUsage gives err ExitUsage; nil stays nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// Reported wraps an error that was written to standard error already: that of the one
// name given, or how many of several failed.
type Reported struct{ err error }

func (e *Reported) Error() string { return e.err.Error() }
func (e *Reported) Unwrap() error { return e.err }

// ExitCode returns the exit code for the error of a command.
func ExitCode(err error) int {
	var u *usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &u):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, container.ErrUnavailable):
		return ExitNoEngine
	case errors.Is(err, manager.ErrNotFound), errors.Is(err, manager.ErrGroupNotFound),
		errors.Is(err, registry.ErrNotFound), errors.Is(err, container.ErrNotFound), errors.Is(err, secret.ErrNotFound):
		return ExitNotFound
	default:
		return ExitFailure
	}
}

// Sentence formats an error for standard error. Joined errors become a list. Control
// sequences, which a server may have put into the text, are removed.
func Sentence(err error) string {
	text := strings.TrimRight(plaintext.Lines(err.Error()), "\n")
	if strings.HasPrefix(text, "Error: ") {
		return text
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 1 && isJoined(err) {
		return "Error:\n  " + strings.Join(lines, "\n  ")
	}
	return "Error: " + text
}

// isJoined reports whether err is several errors, and not one of several lines.
func isJoined(err error) bool {
	var u *usageError
	if errors.As(err, &u) {
		err = u.err
	}
	_, joined := err.(interface{ Unwrap() []error })
	return joined
}

// DidYouMean returns a hint with the known word nearest to word, or "".
func DidYouMean(word string, known []string, prefix string) string {
	if near := settings.Nearest(word, known); near != "" {
		return "; did you mean " + prefix + near + "?"
	}
	return ""
}
