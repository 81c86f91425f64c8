package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/source"
)

// askMissing completes values with what is required: from the person on a
// terminal, a secret without showing it. Elsewhere the error names everything
// that is missing and the flags to write.
func askMissing(ctx context.Context, app *App, values map[string]string, inputs []source.Input) error {
	var missing []source.Input
	var errs []error
	for _, in := range inputs {
		v := values[variable(in)]
		if v == "" && in.Required {
			missing = append(missing, in)
		}
		errs = append(errs, choose(in, v))
	}
	if err := errors.Join(errs...); err != nil {
		return asUsage(err)
	}
	if len(missing) == 0 {
		return nil
	}
	if in, ok := app.In.(*os.File); ok && isTerminal(app.In) && isTerminal(app.Err) {
		return ask(ctx, app, in, values, missing)
	}
	var b strings.Builder
	for _, in := range missing {
		fmt.Fprintf(&b, "\n  -e %s=...", variable(in))
		if in.Description != "" {
			b.WriteString("   " + plaintext.Line(in.Description))
		}
	}
	return usage("the server needs values that were not given; add:%s", b.String())
}

// choose reports a value that is none of the input's choices.
func choose(in source.Input, value string) error {
	if value == "" || len(in.Choices) == 0 || slices.Contains(in.Choices, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %s", variable(in), strings.Join(in.Choices, ", "))
}

func ask(ctx context.Context, app *App, in *os.File, values map[string]string, missing []source.Input) error {
	lines := newAnswers(in)
	for _, input := range missing {
		name := variable(input)
		prompt := name
		if input.Description != "" {
			prompt += " (" + plaintext.Line(input.Description) + ")"
		}
		fmt.Fprintf(app.Err, "%s: ", prompt)
		hidden := input.Secret || secret.Looks(name, "")
		value, err := lines.read(ctx, hidden)
		if hidden || err != nil {
			fmt.Fprintln(app.Err)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if value == "" {
			return usage("%s is required", name)
		}
		if err := choose(input, value); err != nil {
			return asUsage(err)
		}
		values[name] = value
	}
	return nil
}

// answers are the lines that a person types at a terminal.
type answers struct {
	in    *os.File
	lines *bufio.Reader
	// typed is where the line comes that nobody waited for to its end.
	typed chan answer
}

type answer struct {
	text string
	err  error
}

func newAnswers(in *os.File) *answers { return &answers{in: in, lines: bufio.NewReader(in)} }

// read reads one line. When ctx ends (Ctrl-C), the terminal shows again what is typed;
// the read itself goes on until the next line, which is the answer to what is asked
// then.
func (a *answers) read(ctx context.Context, hidden bool) (string, error) {
	fd := int(a.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	if a.typed == nil {
		typed := make(chan answer, 1)
		a.typed = typed
		go func() { typed <- a.next(fd, hidden) }()
	}
	select {
	case got := <-a.typed:
		a.typed = nil
		return got.text, got.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

func (a *answers) next(fd int, hidden bool) answer {
	if hidden {
		b, err := term.ReadPassword(fd)
		return answer{string(b), err}
	}
	line, err := a.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return answer{strings.TrimSpace(line), err}
}
