package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

type exportOptions struct {
	app *base.App
	base.Selection
	file  string // for one workload; "" is standard output
	dir   string // one file each
	force bool
}

func newExport(app *base.App) *cobra.Command {
	o := &exportOptions{app: app}
	cmd := &cobra.Command{
		Use:   "export {NAME [FILE] | NAME... | --all | --group GROUP} [--output-dir DIR]",
		Short: "Write workloads' configurations, for run --from-config",
		Long: `Export writes the whole configuration of a workload, as JSON that run --from-config
reads. Secrets are in it as references, never as values.

One workload goes to standard output or to FILE. Several go to NAME.json each in
the directory of --output-dir, or to standard output as one JSON array. A second
argument is FILE when it holds a / or ends in .json, and a name otherwise.

A file that exists is kept, unless --force is given. With -o json the names and files
written are shown: one object for one NAME, else an array.`,
		Example: `  thv export time time.json
  thv run --from-config time.json --name time-2

  # everything, and everything again somewhere else
  thv export --all --output-dir backup
  for f in backup/*.json; do thv run --from-config "$f"; done

  thv export --group work | jq -r '.[].image'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("output") && !app.JSON {
				return base.Usage("a configuration is written as JSON only; leave out --output")
			}
			return runExport(cmd.Context(), o)
		},
	}
	o.Flags(cmd)
	cmd.Flags().StringVarP(&o.dir, "output-dir", "d", "", "Write NAME.json for each workload into this directory")
	cmd.Flags().BoolVar(&o.force, "force", false, "Replace files that exist")
	base.OutputFlag(cmd, app)
	names := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		args, err := o.parseFile(args, cmd.Flags().Changed("output-dir"))
		if err != nil {
			return err
		}
		return names(cmd, args)
	}
	return cmd
}

// parseFile takes FILE off the arguments and returns the names.
func (o *exportOptions) parseFile(args []string, dirGiven bool) ([]string, error) {
	o.file = ""
	many := o.All || o.Group != ""
	if n := len(args); (n > 1 || n == 1 && many) && isFile(args[n-1]) && o.dir == "" {
		args, o.file = args[:n-1], args[n-1]
	}
	switch {
	case o.file != "" && (len(args) > 1 || many):
		return nil, fmt.Errorf("%s would hold one workload; use --output-dir for several", o.file)
	case o.dir == "" && dirGiven:
		return nil, errors.New("--output-dir is empty")
	case o.force && o.file == "" && o.dir == "":
		return nil, errors.New("--force goes with FILE or --output-dir")
	}
	return args, nil
}

// isFile reports whether an argument is a file and not a workload's name. Only its form
// decides: which files exist must not change the meaning of a command line.
func isFile(arg string) bool {
	return strings.ContainsAny(arg, `/\`) || strings.HasSuffix(arg, ".json")
}

func runExport(ctx context.Context, o *exportOptions) error {
	app := o.app
	store, err := app.Store()
	if err != nil {
		return err
	}
	_, names, err := o.Resolve(ctx, app)
	if err != nil {
		return err
	}
	type written struct {
		Name string `json:"name"`
		File string `json:"file"`
	}
	var specs []*workload.Spec
	var files []written
	err = base.Each(ctx, app, names, func(name string) error {
		spec, err := store.Get(name)
		if err != nil {
			return err
		}
		spec = spec.Portable()
		file := o.file
		if o.dir != "" {
			file = filepath.Join(o.dir, name+".json")
		}
		if file == "" {
			specs = append(specs, spec)
			return nil
		}
		if err := o.write(file, spec); err != nil {
			return err
		}
		files = append(files, written{name, file})
		fmt.Fprintf(app.Err, "%s written to %s\n", name, file)
		return nil
	})
	if o.file != "" || o.dir != "" {
		return base.Show(app, o.One(), files, err)
	}
	return base.Write(app, o.One(), specs, err)
}

// write writes one configuration to a file.
func (o *exportOptions) write(file string, spec *workload.Spec) error {
	b, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("export %s: %w", spec.Name, err)
	}
	b = append(b, '\n')
	if info, err := os.Stat(file); err == nil && info.IsDir() || strings.HasSuffix(file, "/") {
		return fmt.Errorf("export %s: %s is a directory; use --output-dir %s", spec.Name, file, file)
	}
	if o.force {
		return settings.WriteAtomic(file, b, 0o600)
	}
	err = settings.WriteNew(file, b, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("export %s: %s is there already; --force replaces it", spec.Name, file)
	}
	return err
}
