package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/server"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// maxImport bounds a file to import, in bytes.
const maxImport = 256 << 20

func newImport(env Env) *cobra.Command {
	opt := importOptions{env: env}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Put the servers of a registry file into a managed registry",
		Long: `Reads a registry file (the wrapped format, ToolHive's older one, a list of
server.json, or one server.json; "-" is standard input) and publishes what is in
it to the managed source of a registry. The server may run meanwhile.

A version that is there already stays as it is: one that says the same counts as
unchanged, one that differs is reported and makes the command fail, unless
--update replaces it. Nothing is published when the file cannot be read whole.`,
		Example: `  thv-registry import servers.json --config registry.yaml
  thv-registry import servers.json --config registry.yaml --registry team --update
  thv-registry import servers.json --config registry.yaml --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return opt.run(cmd.Context(), args[0]) },
	}
	configFlag(cmd, &opt.config)
	cmd.Flags().StringVar(&opt.registry, "registry", "", "the registry to publish to (default: the only one with a managed source)")
	cmd.Flags().BoolVar(&opt.update, "update", false, "replace versions that are there and differ")
	cmd.Flags().BoolVar(&opt.dryRun, "dry-run", false, "only say what is in the file")
	outputFlag(cmd, &opt.asJSON)
	return cmd
}

type importOptions struct {
	env                    Env
	config, registry       string
	update, dryRun, asJSON bool
}

// imported is what an import did.
type imported struct {
	Registry  string   `json:"registry"`
	Found     int      `json:"found"`
	Added     int      `json:"added"`
	Updated   int      `json:"updated"`
	Unchanged int      `json:"unchanged"`
	Differing []string `json:"differing"` // name version, left as they were
}

func (o *importOptions) run(ctx context.Context, path string) error {
	cfg, err := load(o.env, o.config)
	if err != nil {
		return err
	}
	name, source, err := target(cfg, o.registry)
	if err != nil {
		return &usageError{err}
	}
	content, err := o.read(path)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	documents, err := serverjson.FromFile(content)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	result := imported{Registry: name, Found: len(documents), Differing: []string{}}
	if o.dryRun {
		return o.show(path, result)
	}
	st, err := server.OpenStore(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer st.Close()
	for i, doc := range documents {
		err := o.publish(ctx, st, source, doc, &result)
		if err != nil && ctx.Err() != nil {
			return &interrupted{fmt.Sprintf("import %s: %d of %d were imported; run it again to go on", path, i, len(documents))}
		}
		if err != nil {
			return fmt.Errorf("import %s: %s %s: %w (%d of %d were imported; run it again to go on)", path, doc.Name, doc.Version, err, i, len(documents))
		}
	}
	return o.show(path, result)
}

// target finds the managed source of a registry, or of the only one.
func target(cfg *config.Config, wanted string) (name, source string, err error) {
	var names []string
	for _, d := range cfg.Definitions() {
		if d.Managed == "" {
			if d.Name == wanted {
				return "", "", fmt.Errorf("--registry: %s has no managed source, so nothing can be published to it", wanted)
			}
			continue
		}
		if d.Name == wanted {
			return d.Name, d.Managed, nil
		}
		names, name, source = append(names, d.Name), d.Name, d.Managed
	}
	switch {
	case wanted != "":
		return "", "", fmt.Errorf("--registry: there is no registry %q", wanted)
	case len(names) == 0:
		return "", "", errors.New("no registry of the configuration has a managed source, so nothing can be published")
	case len(names) > 1:
		return "", "", fmt.Errorf("say with --registry which one is meant: %s", strings.Join(names, ", "))
	}
	return name, source, nil
}

func (o *importOptions) read(path string) ([]byte, error) {
	if path == "-" {
		return netguard.ReadBounded(o.env.In, maxImport)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return netguard.ReadBounded(io.Reader(f), maxImport)
}

func (o *importOptions) publish(ctx context.Context, st store.Store, source string, doc serverjson.Document, result *imported) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	_, err := st.Insert(ctx, store.Version{
		Head: store.Head{
			Source: source, Name: doc.Name, Version: doc.Version, Status: registry.Active,
			PublishedAt: now, UpdatedAt: now, StatusChangedAt: now, Search: serverjson.Search(doc),
		},
		Document: doc.Raw,
	})
	if err == nil {
		result.Added++
		return nil
	}
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	differs := false
	_, err = st.Update(ctx, source, doc.Name, doc.Version, func(v *store.Version) error {
		if differs = !bytes.Equal(v.Document, doc.Raw); differs && o.update {
			v.Document, v.Search, v.UpdatedAt = doc.Raw, serverjson.Search(doc), now
			return nil
		}
		return errUntouched
	})
	switch {
	case errors.Is(err, errUntouched) && differs:
		result.Differing = append(result.Differing, doc.Name+" "+doc.Version)
		return nil
	case errors.Is(err, errUntouched):
		result.Unchanged++
		return nil
	case err == nil:
		result.Updated++
	}
	return err
}

// errUntouched ends an Update that is to change nothing.
var errUntouched = errors.New("nothing to change")

func (o *importOptions) show(path string, r imported) error {
	slices.Sort(r.Differing)
	if o.asJSON {
		if err := writeJSON(o.env.Out, r); err != nil {
			return err
		}
	} else if o.dryRun {
		fmt.Fprintf(o.env.Out, "%s holds %d server versions; they would go to registry %s.\n", path, r.Found, r.Registry)
	} else {
		fmt.Fprintf(o.env.Out, "registry %s: %d added, %d updated, %d unchanged.\n", r.Registry, r.Added, r.Updated, r.Unchanged)
	}
	if len(r.Differing) > 0 {
		err := fmt.Errorf("%d versions are there with another content and were left as they are (--update replaces them): %s", len(r.Differing), strings.Join(r.Differing, ", "))
		if o.asJSON {
			return &reported{err}
		}
		return err
	}
	return nil
}
