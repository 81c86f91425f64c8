package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// maxExport bounds an exported configuration, in bytes.
const maxExport = 4 << 20

// importSpec reads an exported configuration: ours, or one that ToolHive
// exported, as far as this version can honour it.
func (o *runOptions) importSpec(ctx context.Context, app *App, p *progress) (*draft, error) {
	content, err := os.ReadFile(o.fromConfig)
	if err != nil {
		return nil, usage("--from-config: %w", err)
	}
	if len(content) > maxExport {
		return nil, usage("--from-config %s: larger than %d bytes", o.fromConfig, maxExport)
	}
	spec, err := decodeExport(content)
	if err != nil {
		return nil, usage("--from-config %s: %w", o.fromConfig, err)
	}
	d := &draft{spec: spec, secrets: map[string]string{}}
	if o.name != "" {
		spec.Name = o.name
	}
	if err := workload.ValidName(spec.Name); err != nil {
		return nil, asUsage(err)
	}
	store, err := app.Store()
	if err != nil {
		return nil, err
	}
	// Another name is another workload with a port of its own.
	if o.name != "" || spec.Proxy.Port == 0 {
		if spec.Proxy.Port, err = store.Port(spec.Name); err != nil {
			return nil, err
		}
	} else if err := store.RememberPort(spec.Name, spec.Proxy.Port); err != nil {
		return nil, err
	}
	if err := d.recoverSecrets(app); err != nil {
		return nil, err
	}
	if spec.Remote == nil {
		if err := o.importImage(ctx, app, spec, p); err != nil {
			return nil, err
		}
	}
	if err := workload.Validate(spec); err != nil {
		return nil, usage("--from-config %s: %w", o.fromConfig, err)
	}
	return d, nil
}

// importImage makes the image present; one that was built from a package is
// built again when this engine does not have it.
func (o *runOptions) importImage(ctx context.Context, app *App, spec *workload.Spec, p *progress) error {
	engine, err := app.Engine(ctx)
	if err != nil {
		return err
	}
	if spec.Package != nil {
		return buildPackage(ctx, app, engine, spec, p)
	}
	_, err = presentImage(ctx, engine, spec.Image, p)
	return err
}

// decodeExport tells the two formats apart by their version key.
func decodeExport(content []byte) (*workload.Spec, error) {
	var probe struct {
		Schema        string  `json:"schema"`
		SchemaVersion *string `json:"schema_version"`
	}
	if err := json.Unmarshal(content, &probe); err == nil && probe.SchemaVersion != nil {
		return decodeToolHive(content)
	} else if err == nil && probe.Schema != workload.Schema {
		return nil, fmt.Errorf("its schema is %q; this version of thv reads %q", probe.Schema, workload.Schema)
	}
	var spec workload.Spec
	if err := workload.DecodeStrict(content, &spec); err != nil {
		return nil, err
	}
	return &spec, nil
}

// recoverSecrets finds the values that the configuration refers to: in the
// secrets store, else in the environment under the variable's own name, else
// from the person.
func (d *draft) recoverSecrets(app *App) error {
	secrets, err := app.Secrets()
	if err != nil {
		return err
	}
	var missing []source.Input
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.spec.SecretEnv)) {
		value, err := secrets.Get(d.spec.SecretEnv[name])
		if errors.Is(err, secret.ErrNotFound) {
			if value = app.Env(name); value == "" {
				missing = append(missing, source.Input{Name: name, Required: true, Secret: true})
				continue
			}
		} else if err != nil {
			return err
		}
		values[name] = value
	}
	if len(missing) > 0 && !isTerminal(app.In) {
		names := make([]string, len(missing))
		for i, in := range missing {
			names[i] = in.Name
		}
		return usage("the configuration refers to secrets that are not stored here: %v; set environment variables of these names and try again", names)
	}
	if err := askMissing(app, values, missing); err != nil {
		return err
	}
	for name, value := range values {
		d.secrets[name] = value
		d.spec.SecretEnv[name] = secret.Ref(d.spec.Name, name)
	}
	return nil
}

// toolHive is what we honour of the configuration that ToolHive's export
// writes, schema v0.1.0.
type toolHive struct {
	SchemaVersion     string                `json:"schema_version"`
	Name              string                `json:"name"`
	ContainerName     string                `json:"container_name"`
	BaseName          string                `json:"base_name"`
	Image             string                `json:"image"`
	RemoteURL         string                `json:"remote_url"`
	CmdArgs           []string              `json:"cmd_args"`
	Transport         string                `json:"transport"`
	Host              string                `json:"host"`
	Port              int                   `json:"port"`
	TargetHost        string                `json:"target_host"`
	TargetPort        int                   `json:"target_port"`
	EnvVars           map[string]string     `json:"env_vars"`
	Volumes           []string              `json:"volumes"`
	Publish           []string              `json:"publish"`
	ContainerLabels   map[string]string     `json:"container_labels"`
	PermissionProfile *workload.Permissions `json:"permission_profile"`
	ProxyMode         string                `json:"proxy_mode"`
	Group             string                `json:"group"`
	SessionTTL        workload.Duration     `json:"session_ttl"`
	Stateless         bool                  `json:"stateless"`
	EndpointPrefix    string                `json:"endpoint_prefix"`
	Debug             bool                  `json:"debug"`
}

// toolHiveNeutral are keys that change nothing when left out.
var toolHiveNeutral = []string{
	"permission_profile_name_or_path", "registry_api_url", "registry_url", "registry_server_name",
	"env_file_dir", "ignore_config", "middleware_configs", "mcpserver_generation", "runtime_config",
}

func decodeToolHive(content []byte) (*workload.Spec, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, err
	}
	kept := map[string]json.RawMessage{}
	var refused []string
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		switch {
		case slices.Contains(toolHiveNeutral, key):
		case isKnownToolHive(key):
			kept[key] = raw[key]
		case !isEmptyJSON(raw[key]):
			refused = append(refused, key)
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("it asks for what this version of thv cannot do: %v; remove these keys to go without", refused)
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	var t toolHive
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, err
	}
	if t.SchemaVersion != "v0.1.0" && t.SchemaVersion != "" {
		return nil, fmt.Errorf("its schema_version is %q; v0.1.0 can be read", t.SchemaVersion)
	}
	return t.spec()
}

func isKnownToolHive(key string) bool {
	b, _ := json.Marshal(toolHive{PermissionProfile: &workload.Permissions{}})
	var known map[string]json.RawMessage
	_ = json.Unmarshal(b, &known) // our own bytes
	_, ok := known[key]
	return ok
}

func isEmptyJSON(raw json.RawMessage) bool {
	switch string(raw) {
	case "null", "false", "0", `""`, "{}", "[]":
		return true
	}
	return false
}

func (t *toolHive) spec() (*workload.Spec, error) {
	s := &workload.Spec{
		Schema: workload.Schema, Name: t.Name, Group: t.Group, Debug: t.Debug,
		Source:    workload.Source{Kind: "config", Ref: t.Image + t.RemoteURL},
		Args:      t.CmdArgs,
		Transport: workload.Transport(t.Transport),
		Proxy: workload.Proxy{
			Host: t.Host, Port: t.Port, Mode: t.ProxyMode, EndpointPrefix: t.EndpointPrefix,
			SessionTTL: t.SessionTTL, Stateless: t.Stateless,
		},
	}
	if s.Group == "" {
		s.Group = workload.DefaultGroup
	}
	if s.Proxy.Host == "" || s.Proxy.Host == "localhost" {
		s.Proxy.Host = "127.0.0.1"
	}
	if s.Proxy.Mode != "sse" || t.Transport != "stdio" {
		s.Proxy.Mode = "streamable-http"
	}
	if t.RemoteURL != "" {
		s.Remote = &workload.Remote{URL: t.RemoteURL}
		s.Args = nil
		return s, nil
	}
	s.Image, s.Env = t.Image, t.EnvVars
	for _, name := range []string{"MCP_TRANSPORT", "MCP_PORT", "FASTMCP_PORT", "MCP_HOST"} {
		delete(s.Env, name) // they follow from the rest
	}
	if t.Transport != "stdio" {
		s.TargetHost, s.TargetPort = t.TargetHost, t.TargetPort
		if s.TargetHost == "" {
			s.TargetHost = "127.0.0.1"
		}
	}
	cwd, err := workingDir()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, v := range t.Volumes {
		m, err := workload.ParseMount(v, cwd)
		if err != nil {
			errs = append(errs, err)
		}
		s.Container.Mounts = append(s.Container.Mounts, m)
	}
	for _, v := range t.Publish {
		p, err := workload.ParsePort(v)
		if err != nil {
			errs = append(errs, err)
		}
		s.Container.Publish = append(s.Container.Publish, p)
	}
	s.Container.Permissions, _ = workload.BuiltinPermissions("network")
	if t.PermissionProfile != nil {
		mounts, err := t.PermissionProfile.Mounts(cwd)
		if err != nil {
			errs = append(errs, err)
		}
		s.Container.Mounts = workload.MergeMounts(mounts, s.Container.Mounts)
		s.Container.Permissions = *t.PermissionProfile
		s.Container.Permissions.Read, s.Container.Permissions.Write = nil, nil
	}
	for key, value := range t.ContainerLabels {
		if len(key) >= 8 && key[:8] == "toolhive" {
			continue
		}
		s.Container.Labels = put(s.Container.Labels, key, value)
	}
	return s, errors.Join(errs...)
}
