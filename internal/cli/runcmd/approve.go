package runcmd

import (
	"context"
	"fmt"
	"os"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/source"
)

// approver returns what decides on the grants that a registry's entry requests: the person
// at the terminal. Without one nothing is approved. A dry run only notes them.
func (o *options) approver(ctx context.Context) func(source.Grant) (bool, error) {
	if o.dryRun {
		return func(g source.Grant) (bool, error) {
			o.requested = append(o.requested, g.What)
			return true, nil
		}
	}
	tty, ok := o.app.In.(*os.File)
	if !ok || !render.IsTerminal(o.app.In) || !render.IsTerminal(o.app.Err) {
		return nil
	}
	lines := render.NewInput(tty)
	return func(g source.Grant) (bool, error) {
		return lines.Confirm(ctx, o.app.Err, fmt.Sprintf("The registry's entry of %s requests %s: %s. Allow it?",
			plaintext.Line(o.arg), plaintext.Line(g.What), g.Risk))
	}
}
