package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

type logsOptions struct {
	app   *base.App
	names base.Selection
	manager.LogOptions
}

func newLogs(app *base.App) *cobra.Command {
	o := &logsOptions{app: app}
	cmd := &cobra.Command{
		Use:   "logs" + base.SelectionUsage,
		Short: "Show the logs of servers",
		Long: `Logs shows what the server wrote to its standard error, and for HTTP servers also
to its standard output. With --proxy it shows the gateway's own log, with --audit the
record of requests (run --enable-audit), one JSON object a line. With several
workloads each line begins with the workload's name. On a terminal, colours and other
control sequences are left out; a pipe or a file receives the log unchanged.`,
		Example: `  thv logs time --tail 20
  thv logs -f time
  thv logs --group work --proxy
  thv logs time --audit | jq -r '[.subjects.user, .target.name, .outcome] | @tsv'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Tail < 0 {
				return base.Usage("--tail must not be negative")
			}
			return runLogs(cmd.Context(), o)
		},
	}
	o.names.Flags(cmd)
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "Follow the log until interrupted")
	cmd.Flags().BoolVar(&o.Proxy, "proxy", false, "The gateway's log instead of the server's")
	cmd.Flags().BoolVar(&o.Audit, "audit", false, "The audit log instead of the server's")
	cmd.MarkFlagsMutuallyExclusive("proxy", "audit")
	cmd.Flags().IntVar(&o.Tail, "tail", 0, "Only the last lines (0: all)")
	return cmd
}

func runLogs(ctx context.Context, o *logsOptions) (err error) {
	m, names, err := o.names.Resolve(ctx, o.app)
	if err != nil {
		return err
	}
	w := o.app.Out
	if render.IsTerminal(w) {
		plain := plaintext.NewWriter(w)
		defer func() {
			if flushErr := plain.Flush(); err == nil {
				err = flushErr
			}
		}()
		w = plain
	}
	if o.names.One() {
		return m.Logs(ctx, names[0], o.LogOptions, w)
	}
	return logsOfMany(ctx, o.app, m, names, o.LogOptions, w)
}

// logsOfMany writes the logs of several workloads: one after the other, or concurrently
// when they are followed.
func logsOfMany(ctx context.Context, app *base.App, m *manager.Manager, names []string, opt manager.LogOptions, w io.Writer) error {
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	var mu sync.Mutex // over w and app.Err
	show := func(name string) error {
		lines := &prefixWriter{mu: &mu, w: w, prefix: name + strings.Repeat(" ", width-len(name)) + " | "}
		err := m.Logs(ctx, name, opt, lines)
		if flushErr := lines.flush(); err == nil {
			err = flushErr
		}
		return err
	}
	if !opt.Follow {
		return base.Each(ctx, app, names, show)
	}
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = show(name) })
	}
	wg.Wait()
	return base.Each(ctx, app, names, func(name string) error {
		for i := range names {
			if names[i] == name {
				return errs[i]
			}
		}
		return nil
	})
}

// prefixWriter writes whole lines with a prefix. Several may share one destination.
type prefixWriter struct {
	mu     *sync.Mutex
	w      io.Writer
	prefix string
	rest   []byte // the line that has not ended
}

// maxLine bounds the part of a line that is buffered until it ends, in bytes.
const maxLine = 64 << 10

func (p *prefixWriter) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		i := bytes.IndexByte(p.rest, '\n')
		if i < 0 && len(p.rest) < maxLine {
			return len(b), nil
		}
		if i < 0 {
			i = len(p.rest)
		}
		if err := p.line(p.rest[:i]); err != nil {
			return 0, err
		}
		p.rest = p.rest[min(i+1, len(p.rest)):]
	}
}

func (p *prefixWriter) flush() error {
	if len(p.rest) == 0 {
		return nil
	}
	return p.line(p.rest)
}

func (p *prefixWriter) line(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.w, "%s%s\n", p.prefix, line)
	return err
}
