package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

type connectionsOptions struct {
	app    *base.App
	name   string
	follow bool
}

func newConnections(app *base.App) *cobra.Command {
	o := &connectionsOptions{app: app}
	cmd := &cobra.Command{
		Use:   "connections NAME",
		Short: "Show what an isolated server connected to, and what was refused",
		Long: `Connections lists the last connections of a running workload that was started with
run --isolate-network: the host, the port, the bytes that the server sent and received,
and for refused ones the reason. DNS questions are listed when they are refused. Equal
refusals are one row, with their number.

UDP datagrams that are not DNS questions are rejected by the kernel. They are listed, up to
20 in a second, where the kernel can record them.

With -f, connections are shown as they begin, end or are refused, until interrupted; with
-o json each is then one line.`,
		Example: `  thv connections time
  thv connections -f time
  thv connections time -o json | jq -r '.[] | select(.allowed | not) | .name'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runConnections(cmd.Context(), o)
		},
	}
	base.OutputFlag(cmd, app)
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "Show connections until interrupted")
	return cmd
}

func runConnections(ctx context.Context, o *connectionsOptions) error {
	m, err := serving(ctx, o.app, o.name)
	if err != nil {
		return err
	}
	records, err := m.Connections(ctx, o.name, 0)
	if err != nil {
		return err
	}
	switch {
	case o.follow:
		return followConnections(ctx, o, m, records)
	case o.app.JSON:
		return render.JSON(o.app.Out, records)
	}
	rows := make([][]string, len(records))
	for i, r := range records {
		rows[i] = connectionRow(r)
	}
	return render.Table(o.app.Out, []string{"TIME", "HOST", "PORT", "KIND", "RESULT", "SENT", "RECEIVED", "REASON"}, rows, nil, 1)
}

// connectionsEvery is the interval at which followed connections are read.
const connectionsEvery = 300 * time.Millisecond

// followConnections shows records, and later ones until the workload ends or ctx does.
func followConnections(ctx context.Context, o *connectionsOptions, m *manager.Manager, records []egress.Record) error {
	tick := time.NewTicker(connectionsEvery)
	defer tick.Stop()
	last := uint64(0)
	for {
		for _, r := range records {
			if err := showConnection(o.app, r); err != nil {
				return err
			}
			last = r.Change
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var err error
		if records, err = m.Connections(ctx, o.name, last); err != nil {
			return err
		}
	}
}

func showConnection(app *base.App, r egress.Record) error {
	if app.JSON {
		return json.NewEncoder(app.Out).Encode(r)
	}
	row := connectionRow(r)
	_, err := fmt.Fprintf(app.Out, "%s  %s:%s  %s  %s  %s  %s  %s\n", row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])
	return err
}

func connectionRow(r egress.Record) []string {
	host := r.Name
	if host == "" && r.Address.IsValid() {
		host = r.Address.String()
	}
	result := "refused"
	switch {
	case r.Open:
		result = "open"
	case r.Allowed && r.Reason != "":
		result = "failed"
	case r.Allowed:
		result = "allowed"
	case r.Count > 1:
		result = fmt.Sprintf("refused (%d times)", r.Count)
	}
	port, sent, received := "-", "-", "-"
	if r.Port != 0 {
		port = strconv.Itoa(r.Port)
	}
	if r.Allowed && !r.Open {
		sent, received = strconv.FormatInt(r.Sent, 10), strconv.FormatInt(r.Received, 10)
	}
	return []string{r.Time.Local().Format(time.TimeOnly), plaintext.Line(host), port, r.Kind, result, sent, received, plaintext.Line(r.Reason)}
}
