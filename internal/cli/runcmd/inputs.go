package runcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/source"
)

// askMissing completes values by [askMissing]. In a dry run the missing ones are noted.
func (d *draft) askMissing(ctx context.Context, app *base.App, values map[string]string, inputs []source.Input) error {
	if d.dry {
		inputs = slices.DeleteFunc(slices.Clone(inputs), func(in source.Input) bool {
			missing := in.Required && values[variable(in)] == ""
			if missing {
				d.asked = append(d.asked, variable(in))
			}
			return missing
		})
	}
	return askMissing(ctx, app, values, inputs)
}

// askMissing prompts for the required values that are missing; a secret is not shown
// while it is typed. Without a terminal, the error lists them with the flags to add.
func askMissing(ctx context.Context, app *base.App, values map[string]string, inputs []source.Input) error {
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
		return base.AsUsage(err)
	}
	if len(missing) == 0 {
		return nil
	}
	if in, ok := app.In.(*os.File); ok && render.IsTerminal(app.In) && render.IsTerminal(app.Err) {
		return ask(ctx, app, in, values, missing)
	}
	var b strings.Builder
	for _, in := range missing {
		fmt.Fprintf(&b, "\n  -e %s=...", variable(in))
		if in.Description != "" {
			b.WriteString("   " + plaintext.Line(in.Description))
		}
	}
	return base.Usage("the server needs values that were not given; add:%s", b.String())
}

// choose reports a value that is not one of the input's choices.
func choose(in source.Input, value string) error {
	if value == "" || len(in.Choices) == 0 || slices.Contains(in.Choices, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %s", variable(in), strings.Join(in.Choices, ", "))
}

func ask(ctx context.Context, app *base.App, in *os.File, values map[string]string, missing []source.Input) error {
	lines := render.NewInput(in)
	for _, input := range missing {
		name := variable(input)
		prompt := name
		if input.Description != "" {
			prompt += " (" + plaintext.Line(input.Description) + ")"
		}
		fmt.Fprintf(app.Err, "%s: ", prompt)
		hidden := input.Secret || secret.Looks(name, "")
		value, err := lines.Read(ctx, hidden)
		if hidden || err != nil {
			fmt.Fprintln(app.Err)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if value == "" {
			return base.Usage("%s is required", name)
		}
		if err := choose(input, value); err != nil {
			return base.AsUsage(err)
		}
		values[name] = value
	}
	return nil
}
