package render

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Input reads the lines that are typed at a terminal.
type Input struct {
	tty   *os.File
	lines *bufio.Reader
	// typed receives the line of a read whose context ended; the next read returns it.
	typed chan line
}

type line struct {
	text string
	err  error
}

// NewInput returns the Input of a terminal.
func NewInput(tty *os.File) *Input { return &Input{tty: tty, lines: bufio.NewReader(tty)} }

// Read reads one line; a hidden one is not shown while it is typed. When ctx ends, the
// terminal is restored and the read goes on: the line it gets is returned by the next
// Read.
func (in *Input) Read(ctx context.Context, hidden bool) (string, error) {
	fd := int(in.tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	if in.typed == nil {
		typed := make(chan line, 1)
		in.typed = typed
		go func() { typed <- in.next(fd, hidden) }()
	}
	select {
	case got := <-in.typed:
		in.typed = nil
		return got.text, got.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// Confirm shows a question that is answered with yes or no. Everything but yes is no.
func (in *Input) Confirm(ctx context.Context, w io.Writer, question string) (bool, error) {
	fmt.Fprintf(w, "%s [y/N] ", question)
	answer, err := in.Read(ctx, false)
	if err != nil {
		fmt.Fprintln(w)
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

func (in *Input) next(fd int, hidden bool) line {
	if hidden {
		b, err := term.ReadPassword(fd)
		return line{string(b), err}
	}
	text, err := in.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && text != "" {
		err = nil
	}
	return line{strings.TrimSpace(text), err}
}
