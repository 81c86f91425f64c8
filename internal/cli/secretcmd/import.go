package secretcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// maxImport bounds a file, in bytes.
const maxImport = 16 << 20

type importOptions struct {
	file, prefix string
	replace      bool
}

func newImport(app *base.App) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import {FILE | - | --env-prefix PREFIX}",
		Short: "Store secrets from a file or from environment variables",
		Long: `Import stores the secrets of a file: KEY=VALUE lines as of --env-file, or one JSON object
whose values are text. - is standard input. With --env-prefix it stores the environment
variables that begin with PREFIX, which their names do not keep: TOOLHIVE_SECRET_ is the
prefix of ToolHive's.

A secret that is there with another value is kept, unless --replace is given. What is not
stored is listed with the reason. The file stays as it is.`,
		Example: `  thv secret import .env
  jq '{github: .tokens.github}' config.json | thv secret import -
  thv secret import --env-prefix TOOLHIVE_SECRET_`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == cmd.Flags().Changed("env-prefix") {
				return errors.New("give one file, - for standard input, or --env-prefix")
			}
			if len(args) == 1 {
				o.file = args[0]
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), app) },
	}
	cmd.Flags().StringVar(&o.prefix, "env-prefix", "", "Import the environment variables with this prefix, such as TOOLHIVE_SECRET_")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "Replace secrets that have another value")
	base.OutputFlag(cmd, app)
	return cmd
}

// skipped is a secret that was not stored.
type skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// imported is the result of import.
type imported struct {
	Imported []string  `json:"imported"`
	Skipped  []skipped `json:"skipped"`
}

func (o *importOptions) run(ctx context.Context, app *base.App) error {
	p, err := provider(app)
	if err != nil {
		return err
	}
	if !p.About().Writes {
		return p.Set(ctx, "", "")
	}
	values, result, err := o.read(app)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		reason, err := o.store(ctx, p, name, values[name])
		switch {
		case err != nil:
			return errors.Join(err, o.show(app, result))
		case reason != "":
			result.Skipped = append(result.Skipped, skipped{name, reason})
		default:
			result.Imported = append(result.Imported, name)
		}
	}
	return o.show(app, result)
}

// store stores one secret, or returns why it does not.
func (o *importOptions) store(ctx context.Context, p secret.Provider, name, value string) (reason string, err error) {
	if reason := unfit(name, value); reason != "" {
		return reason, nil
	}
	there, err := p.Get(ctx, name)
	switch {
	case errors.Is(err, secret.ErrNotFound):
	case err != nil:
		return "", err
	case there == value:
		return "it is stored already", nil
	case !o.replace:
		return "it has another value; --replace replaces it", nil
	}
	return "", p.Set(ctx, name, value)
}

// unfit returns why a secret cannot be stored, "" if it can.
func unfit(name, value string) string {
	if secret.CheckPlainName(name) != nil {
		return "it is not a valid name"
	}
	if err := secret.CheckValue(value); err != nil {
		return err.Error()
	}
	return ""
}

// read returns the values of the source, and what in it cannot be read.
func (o *importOptions) read(app *base.App) (map[string]string, imported, error) {
	result := imported{Imported: []string{}, Skipped: []skipped{}}
	if o.file == "" {
		if o.prefix == "" {
			return nil, result, base.Usage("--env-prefix is empty")
		}
		values := map[string]string{}
		for _, variable := range os.Environ() {
			name, value, _ := strings.Cut(variable, "=")
			if name, ok := strings.CutPrefix(name, o.prefix); ok {
				values[name] = value
			}
		}
		return values, result, nil
	}
	content, err := o.content(app)
	if err != nil {
		return nil, result, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		values, err := runflag.ParseEnvFile(content)
		if err != nil && len(values) == 0 {
			return nil, result, base.Usage("%s: %w", o.file, err)
		}
		if err != nil {
			for _, fault := range strings.Split(err.Error(), "\n") {
				line, reason, _ := strings.Cut(fault, ": ")
				result.Skipped = append(result.Skipped, skipped{line, reason})
			}
		}
		return values, result, nil
	}
	var any map[string]json.RawMessage
	if err := json.Unmarshal(content, &any); err != nil {
		return nil, result, base.Usage("%s: it is not a JSON object", o.file) // the error may quote a value
	}
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(any)) {
		var value string
		if err := json.Unmarshal(any[name], &value); err != nil {
			result.Skipped = append(result.Skipped, skipped{name, "its value is not text"})
			continue
		}
		values[name] = value
	}
	return values, result, nil
}

func (o *importOptions) content(app *base.App) ([]byte, error) {
	if o.file != "-" {
		content, err := runflag.ReadFile(o.file, maxImport)
		return content, base.AsUsage(err)
	}
	content, err := io.ReadAll(io.LimitReader(app.In, maxImport+1))
	if err == nil && len(content) > maxImport {
		err = fmt.Errorf("it is larger than %d bytes", maxImport)
	}
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return content, nil
}

func (o *importOptions) show(app *base.App, result imported) error {
	if app.JSON {
		return render.JSON(app.Out, result)
	}
	for _, s := range result.Skipped {
		fmt.Fprintf(app.Err, "skipped %s: %s\n", plaintext.Line(s.Name), s.Reason)
	}
	fmt.Fprintf(app.Err, "%d stored, %d skipped\n", len(result.Imported), len(result.Skipped))
	for _, name := range result.Imported {
		if _, err := fmt.Fprintln(app.Out, name); err != nil {
			return err
		}
	}
	return nil
}
