package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/webhook"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newStatus(app *base.App) *cobra.Command {
	s := &base.Selection{}
	cmd := &cobra.Command{
		Use:   "status" + base.SelectionUsage,
		Short: "Show workloads in full: their state and their settings",
		Long: `Status shows the state of a workload and its settings. Of environment variables it
shows the names, never the values; the server's arguments and a remote server's headers,
which may be secret too, and --debug are not shown. Other settings that are missing have
their defaults. thv export shows the whole configuration. With -o json one NAME is one
object, everything else an array.

The versions that the server itself supports, with sessions (MCP 2024-11-05 to
2025-11-25) and without (2026-07-28), are those that the gateway detected last. It
probes for one of the two when the first such client connects, for versions without
sessions over HTTP when the server starts, and again when the server changes. In JSON they are .speaks.session and .speaks.stateless: a version, "no" or
"unknown"; .speaks.translated names those of the two that the gateway translates.`,
		Example: `  thv status time
  thv status --all -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), app, s) },
	}
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}

func runStatus(ctx context.Context, app *base.App, s *base.Selection) error {
	m, names, err := s.Resolve(ctx, app)
	if err != nil {
		return err
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	var all []fullStatus
	err = base.Each(ctx, app, names, func(name string) error {
		st, err := m.Status(ctx, name)
		if err != nil {
			return err
		}
		full := fullStatus{Status: st}
		// st reports a configuration that cannot be read.
		if spec, err := store.Get(name); err == nil {
			full.setUp(spec)
		}
		all = append(all, full)
		if !app.JSON {
			if len(all) > 1 {
				fmt.Fprintln(app.Out)
			}
			return showStatus(app, full)
		}
		return nil
	})
	return base.Show(app, s.One(), all, err)
}

func showStatus(app *base.App, st fullStatus) error {
	started := ""
	if st.Started != nil {
		started = st.Started.Format(time.RFC3339)
	}
	rows := [][2]string{
		{"Name", st.Name}, {"State", string(st.State)}, {"Reason", st.Reason}, {"URL", st.URL},
		{"Server", plaintext.Line(st.Server)}, {"Group", st.Group}, {"Source", st.Source}, {"Image", st.Image},
		{"Version", plaintext.Line(st.Version)}, {"Digest", st.Digest},
		{"Transport", string(st.Transport)}, {"Proxy mode", st.ProxyMode}, {"Tokens of", plaintext.Line(st.Issuer)},
		{"Created", st.Created.Format(time.RFC3339)}, {"Started", started},
	}
	for _, line := range base.ServerVersions(st.Speaks) {
		rows = append(rows, [2]string{"Server speaks", line})
	}
	if base.Serves(st.Status) {
		rows = append(rows, [2]string{"Sessions", strconv.Itoa(st.Sessions)})
	}
	if p := st.Processes; p != nil && base.Serves(st.Status) {
		value := fmt.Sprintf("%d of %d", p.Running, p.Max)
		if p.Waiting > 0 {
			value += fmt.Sprintf(", %d waiting", p.Waiting)
		}
		rows = append(rows, [2]string{"Processes", value})
	}
	if st.Restarts > 0 {
		rows = append(rows, [2]string{"Restarts", strconv.Itoa(st.Restarts)})
	}
	if st.Exposed != "" {
		rows = append(rows, [2]string{"Exposed", base.Exposure(st.Status)})
	}
	if st.PID != 0 {
		rows = append(rows, [2]string{"Gateway process", strconv.Itoa(st.PID)})
	}
	rows = append(rows, st.rows()...)
	for _, caution := range st.Cautions {
		rows = append(rows, [2]string{"Caution", caution})
	}
	for i, row := range rows {
		if row[1] == "" {
			continue
		}
		value := plaintext.Lines(row[1])
		if row[0] == "State" {
			value = render.PaintState(app.Out, app.Env, value)
		}
		label := row[0] + ":"
		if i > 0 && rows[i-1][0] == row[0] {
			label = "" // one of several
		}
		if _, err := fmt.Fprintf(app.Out, "%-16s %s\n", label, value); err != nil {
			return err
		}
	}
	return nil
}

// fullStatus is a workload's state and settings, under the names of its configuration. It
// has no values of environment variables: a status is shown to others.
type fullStatus struct {
	*workload.Status
	EnvNames       []string            `json:"envNames,omitempty"`
	SecretEnvNames []string            `json:"secretEnvNames,omitempty"`
	TargetHost     string              `json:"targetHost,omitempty"`
	TargetPort     int                 `json:"targetPort,omitempty"`
	TargetPath     string              `json:"targetPath,omitempty"`
	Proxy          *workload.Proxy     `json:"proxy,omitempty"`
	Auth           *workload.Auth      `json:"auth,omitempty"`
	CABundle       string              `json:"caBundle,omitempty"`
	Container      *workload.Container `json:"container,omitempty"`
	Tools          *workload.Tools     `json:"tools,omitempty"`
	Policy         *policy.Config      `json:"policy,omitempty"`
	Audit          *audit.Config       `json:"audit,omitempty"`
	Webhooks       *webhook.Config     `json:"webhooks,omitempty"`
	// Network is the engine's name of the container's network.
	Network string `json:"network,omitempty"`

	rules []workload.NetworkRule
}

func (st *fullStatus) setUp(spec *workload.Spec) {
	st.EnvNames = slices.Sorted(maps.Keys(spec.Env))
	st.SecretEnvNames = slices.Sorted(maps.Keys(spec.SecretEnv))
	st.TargetHost, st.TargetPort, st.TargetPath = spec.TargetHost, spec.TargetPort, spec.TargetPath
	if !spec.Tools.Config().IsZero() {
		st.Tools = &spec.Tools
	}
	st.Policy, st.Audit, st.Webhooks = spec.Policy, spec.Audit, spec.Webhooks
	st.Proxy, st.CABundle = &spec.Proxy, spec.CABundle
	if spec.Auth != nil {
		a := *spec.Auth
		a.ClientSecret = ""
		st.Auth = &a
	}
	if spec.Remote == nil {
		st.Container, st.Network, st.rules = &spec.Container, spec.NetworkName(), spec.NetworkRules()
	}
}

// rows lists the settings; empty ones are left out.
func (st *fullStatus) rows() [][2]string {
	var rows [][2]string
	each := func(label string, values []string) {
		for _, v := range values {
			rows = append(rows, [2]string{label, plaintext.Line(v)})
		}
	}
	each("Label", pairs(st.Labels))
	if st.TargetPort != 0 && !st.Remote {
		each("Server's port", []string{net.JoinHostPort(st.TargetHost, strconv.Itoa(st.TargetPort)) + st.TargetPath + " in the container"})
	}
	if a := st.Auth; a != nil {
		each("Audience", []string{cmp.Or(a.Audience, a.ResourceURL)})
		each("Keys", []string{a.JWKSURL})
		each("Introspection", []string{a.IntrospectionURL})
		each("Resource URL", []string{a.ResourceURL})
		each("Scopes", []string{strings.Join(a.Scopes, " ")})
	}
	each("CA bundle", []string{st.CABundle})
	each("Environment", st.EnvNames)
	for _, name := range st.SecretEnvNames {
		each("Environment", []string{name + " (secret)"})
	}
	if c := st.Container; c != nil {
		for _, m := range c.Mounts {
			text := m.Host + " at " + m.Container
			if m.ReadOnly {
				text += ", read-only"
			}
			if m.Relabel != "" {
				text += ", relabelled " + m.Relabel
			}
			each("Volume", []string{text})
		}
		for _, p := range c.Publish {
			each("Published port", []string{p.String()})
		}
		each("Network", []string{st.Network})
		if !reflect.ValueOf(c.Permissions).IsZero() {
			each("Permissions", []string{permissions(c.Permissions, st.rules)})
		}
	}
	if p := st.Proxy; p != nil {
		if p.Host != "127.0.0.1" {
			each("Listens on", []string{p.Host})
		}
		each("Endpoint prefix", []string{p.EndpointPrefix})
		if p.SessionTTL != 0 {
			each("Session TTL", []string{time.Duration(p.SessionTTL).String()})
		}
		if p.Stateless {
			each("Stateless", []string{"yes"})
		}
		if p.TrustProxyHeaders {
			each("Trusts proxies", []string{"yes"})
		}
		each("Allowed host", p.AllowedHosts)
	}
	if t := st.Tools; t != nil {
		each("Tools", []string{strings.Join(t.Filter, ", ")})
		if t.Pin {
			each("Tools pinned", []string{"yes"})
		}
		for _, name := range slices.Sorted(maps.Keys(t.Override)) {
			o := t.Override[name]
			change := name + " has another description"
			if o.Name != "" {
				change = name + " is named " + o.Name
			}
			each("Tool override", []string{change})
		}
	}
	if w := st.Webhooks; w != nil {
		for _, h := range w.Mutating {
			each("Webhook", []string{h.Name + " (mutating): " + h.URL})
		}
		for _, h := range w.Validating {
			each("Webhook", []string{h.Name + " (validating): " + h.URL})
		}
	}
	if a := st.Audit; a.On() {
		each("Audit log", []string{a.Path("thv logs " + st.Name + " --audit")})
	}
	if p := st.Policy; p != nil {
		each("Authorization", []string{policies(len(p.Policies))})
	}
	return rows
}

// permissions formats a permission profile in one line. Its paths are among the volumes.
func permissions(p workload.Permissions, rules []workload.NetworkRule) string {
	var parts []string
	if p.Name != "" {
		parts = append(parts, p.Name)
	}
	if p.Privileged {
		parts = append(parts, "privileged")
	}
	for _, rule := range rules {
		if !rule.Enforced {
			rule.Text += " (requested, not enforced)"
		}
		parts = append(parts, rule.Text)
	}
	return strings.Join(parts, "; ")
}

// pairs returns the entries of m as key=value, sorted.
func pairs(m map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}
