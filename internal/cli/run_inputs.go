package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/toolhaven/toolhaven/internal/source"
)

// askMissing completes values with what is required: from the person on a
// terminal, a secret without showing it. Elsewhere the error names everything
// that is missing and the flags to write.
func askMissing(app *App, values map[string]string, inputs []source.Input) error {
	var missing []source.Input
	var errs []error
	for _, in := range inputs {
		name := in.Name
		if in.Header {
			name = headerVariable(name)
		}
		v, ok := values[name]
		if in.Required && (!ok || v == "") {
			missing = append(missing, in)
		}
		if ok && len(in.Choices) > 0 && !slices.Contains(in.Choices, v) {
			errs = append(errs, fmt.Errorf("%s must be one of %s", name, strings.Join(in.Choices, ", ")))
		}
	}
	if len(errs) > 0 {
		return asUsage(errors.Join(errs...))
	}
	if len(missing) == 0 {
		return nil
	}
	if in, ok := app.In.(*os.File); ok && isTerminal(app.In) && isTerminal(app.Err) {
		return ask(app, in, values, missing)
	}
	var b strings.Builder
	for _, in := range missing {
		name := in.Name
		if in.Header {
			name = headerVariable(name)
		}
		fmt.Fprintf(&b, "\n  -e %s=...", name)
		if in.Description != "" {
			b.WriteString("   " + printable(in.Description))
		}
	}
	return usage("the server needs values that were not given; add:%s", b.String())
}

func ask(app *App, in *os.File, values map[string]string, missing []source.Input) error {
	lines := bufio.NewReader(in)
	for _, input := range missing {
		name := input.Name
		if input.Header {
			name = headerVariable(name)
		}
		prompt := name
		if input.Description != "" {
			prompt += " (" + printable(input.Description) + ")"
		}
		fmt.Fprintf(app.Err, "%s: ", prompt)
		var value string
		if input.Secret {
			b, err := term.ReadPassword(int(in.Fd()))
			fmt.Fprintln(app.Err)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			value = string(b)
		} else {
			line, err := lines.ReadString('\n')
			if err != nil && !(errors.Is(err, io.EOF) && line != "") {
				return fmt.Errorf("read %s: %w", name, err)
			}
			value = strings.TrimSpace(line)
		}
		if value == "" {
			return usage("%s is required", name)
		}
		values[name] = value
	}
	return nil
}
