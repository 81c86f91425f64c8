package base

import (
	"fmt"

	"github.com/spf13/cobra"
)

// OutputFlag adds -o to a command that prints a result.
func OutputFlag(cmd *cobra.Command, app *App) {
	cmd.Flags().VarP(&formatValue{&app.JSON}, "output", "o", "Output format: table or json")
}

// formatValue is the flag -o.
type formatValue struct{ json *bool }

func (f *formatValue) String() string {
	if f.json != nil && *f.json {
		return "json"
	}
	return "table"
}

func (f *formatValue) Type() string { return "format" }

func (f *formatValue) Set(s string) error {
	switch s {
	case "json":
		*f.json = true
	case "table", "text":
		*f.json = false
	default:
		return fmt.Errorf("choose table or json, not %q", s)
	}
	return nil
}
