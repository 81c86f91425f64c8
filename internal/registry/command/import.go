package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
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
--update replaces it. Nothing is published when the file cannot be read whole.

A record of what was written goes to audit.file, or to standard error.`,
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
	LeftOut   int      `json:"leftOut"`   // skills and plugins, which are not servers
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
	documents, leftOut, err := serverjson.FromFile(content)
	if err == nil && leftOut.Malformed > 0 {
		err = fmt.Errorf("%d of its entries cannot be used, so nothing was imported: %s", leftOut.Malformed, leftOut.Why())
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	result := imported{Registry: name, Found: len(documents), LeftOut: leftOut.Others, Differing: []string{}}
	if o.dryRun {
		return o.show(path, result)
	}
	// Standard output is for the result.
	record, err := server.OpenAudit(cfg.Audit, o.env.Err, newLog(o.env.Err, slog.LevelInfo), nil)
	if err != nil {
		return err
	}
	defer record.Close()
	st, err := server.OpenStore(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer st.Close()
	switch done, err := o.publish(ctx, st, record, source, documents, &result); {
	case err != nil && ctx.Err() != nil:
		return &interrupted{fmt.Sprintf("import %s: %d of %d were imported; run it again to go on", path, done, len(documents))}
	case err != nil:
		return fmt.Errorf("import %s: %w (%d of %d were imported; run it again to go on)", path, err, done, len(documents))
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

// A batch is one transaction of so many versions, and about so many bytes, at
// most: many, for each transaction waits for the disk, and not too many, for those
// who publish meanwhile wait for it.
const (
	maxBatch      = 500
	maxBatchBytes = 8 << 20
)

// batch is how many of the documents, of which there are some, go together.
func batch(documents []serverjson.Document) int {
	n, size := 0, 0
	for n < len(documents) && n < maxBatch && size < maxBatchBytes {
		size += len(documents[n].Raw)
		n++
	}
	return n
}

// publish adds the documents, batch by batch, and returns how many are in those
// that were committed. After a failure it can be called again with the same.
func (o *importOptions) publish(ctx context.Context, st store.Store, record *auditlog.Log, source string, documents []serverjson.Document, result *imported) (int, error) {
	for done := 0; done < len(documents); {
		some := documents[done:][:batch(documents[done:])]
		versions := make([]store.Version, len(some))
		for i, doc := range some {
			versions[i] = catalog.Publication(source, doc)
		}
		if err := record.Begin(); err != nil {
			return done, err
		}
		outcomes, err := st.Add(ctx, source, versions, o.update)
		if err != nil {
			recordBatch(record, result.Registry, nil, fmt.Errorf("%s %s and %d more: %w", some[0].Name, some[0].Version, len(some)-1, err))
			return done, err
		}
		named := map[store.Outcome][]string{}
		for i, outcome := range outcomes {
			named[outcome] = append(named[outcome], some[i].Name+" "+some[i].Version)
		}
		recordBatch(record, result.Registry, named, nil)
		result.Added += len(named[store.Added])
		result.Updated += len(named[store.Replaced])
		result.Unchanged += len(named[store.Same])
		result.Differing = append(result.Differing, named[store.Differs]...)
		done += len(some)
	}
	return len(documents), nil
}

// recordBatch records the outcome of a batch.
func recordBatch(record *auditlog.Log, registry string, named map[store.Outcome][]string, err error) {
	attrs := []slog.Attr{slog.String("outcome", "done"), slog.String("command", "import"), slog.String("registry", registry), slog.String("user", userName())}
	if err != nil {
		attrs[0] = slog.String("outcome", "failed")
		attrs = append(attrs, slog.String("reason", err.Error()))
	} else {
		attrs = append(attrs, slog.Any("added", list(named[store.Added])), slog.Any("updated", list(named[store.Replaced])),
			slog.Int("unchanged", len(named[store.Same])), slog.Int("differing", len(named[store.Differs])))
	}
	record.Record(attrs...)
}

// list is never nil, so that it is [] in JSON.
func list(names []string) []string { return append([]string{}, names...) }

// userName is who imports, to this machine.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

func (o *importOptions) show(path string, r imported) error {
	slices.Sort(r.Differing)
	if o.asJSON {
		if err := writeJSON(o.env.Out, r); err != nil {
			return err
		}
	} else if o.dryRun {
		fmt.Fprintf(o.env.Out, "server versions in %s that would go to registry %s: %d\n", path, r.Registry, r.Found)
	} else {
		fmt.Fprintf(o.env.Out, "registry %s: %d added, %d updated, %d unchanged.\n", r.Registry, r.Added, r.Updated, r.Unchanged)
	}
	if r.LeftOut > 0 && !o.asJSON {
		fmt.Fprintf(o.env.Out, "left out: %d skills and plugins, which are not servers.\n", r.LeftOut)
	}
	if len(r.Differing) > 0 {
		err := fmt.Errorf("%d of %d left as they were, being there with another content (--update replaces them): %s", len(r.Differing), r.Found, strings.Join(r.Differing, ", "))
		if o.asJSON {
			return &reported{err}
		}
		return err
	}
	return nil
}
