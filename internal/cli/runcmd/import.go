package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/runcmd/toolhive"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// maxExport bounds an exported configuration, in bytes.
const maxExport = 4 << 20

// importFile makes a draft from an exported configuration: ours, or one that ToolHive
// exported, as far as this version has its features.
func importFile(ctx context.Context, o *options) (*draft, error) {
	content, err := runflag.ReadFile(o.fromConfig, maxExport)
	if err != nil {
		return nil, base.Usage("--from-config: %w", err)
	}
	spec, notices, err := decodeExport(content)
	if err != nil {
		return nil, base.Usage("--from-config %s: %w", o.fromConfig, err)
	}
	given, err := o.environment()
	if err != nil {
		return nil, base.AsUsage(err)
	}
	d := &draft{spec: spec, secrets: map[string]string{}, notices: notices, dry: o.dryRun, origin: "the permission profile"}
	from := spec.Name
	if o.given("name") {
		spec.Name = o.name
	}
	if o.authFile != "" {
		server, outgoing, err := readExternalAuth(o.authFile)
		if err != nil {
			return nil, base.AsUsage(err)
		}
		spec.ExternalAuth = outgoing
		if server != nil {
			spec.SetAuthServer(server, "", []string{"openid"})
		}
	}
	if spec.Name != from {
		spec.Proxy.Port = 0 // another workload, with a port of its own
	}
	spec.Debug = spec.Debug || o.app.Debug
	if err := workload.ValidName(spec.Name); err != nil {
		return nil, base.Usage("--from-config %s: %w", o.fromConfig, err)
	}
	if err := checkName(ctx, o.app, spec.Name, spec.Group); err != nil {
		return nil, err
	}
	if o.targets, err = o.parseSecrets(); err != nil {
		return nil, base.AsUsage(err)
	}
	if o.telemetryHeaders, err = o.telemetry.parseHeaders(o.app.Env); err != nil {
		return nil, base.AsUsage(err)
	}
	if err := d.recoverSecrets(ctx, o, from, given); err != nil {
		return nil, err
	}
	if err := check(*spec); err != nil {
		return nil, base.Usage("--from-config %s: %w", o.fromConfig, err)
	}
	return d, checkSecrets(ctx, o.app, spec)
}

// decodeExport decodes either format; the key of the version differs.
func decodeExport(content []byte) (*workload.Spec, []string, error) {
	var probe struct {
		Schema        *string `json:"schema"`
		SchemaVersion *string `json:"schema_version"`
	}
	err := json.Unmarshal(content, &probe)
	switch {
	case err == nil && probe.SchemaVersion != nil:
		return toolhive.Decode(content)
	case err == nil && probe.Schema != nil && *probe.Schema != workload.Schema:
		return nil, nil, fmt.Errorf("its schema is %q; this version of thv reads %q", *probe.Schema, workload.Schema)
	}
	var spec workload.Spec
	if err := runflag.DecodeStrict(content, &spec); err != nil {
		return nil, nil, err
	}
	if probe.Schema == nil {
		return nil, nil, fmt.Errorf("it has no schema; this version of thv reads %q", workload.Schema)
	}
	return spec.Portable(), nil, nil // a file does not decide what its names mean here
}

// recoverSecrets looks up the values of the secrets that the configuration refers to: in
// given (-e, --env-file), then in the secrets store, then at the prompt. from is the
// workload's name in the file.
//
// A file from elsewhere must not send the secrets of a workload here to another program.
// So the store is read only when the file describes that very workload, and the caller's
// environment is not read at all (-e NAME without a value does that, by name).
func (d *draft) recoverSecrets(ctx context.Context, o *options, from string, given map[string]string) error {
	d.hideSecrets()
	app := o.app
	secrets, err := app.Secrets()
	if err != nil {
		return err
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	stored, err := store.Get(from)
	known := err == nil && sameProgram(stored, d.spec)
	headers, err := o.server.parseSecretHeaders()
	if err != nil {
		return base.AsUsage(err)
	}
	if err := acceptShared(d.spec, known, o.authFile != "", given, o.targets, headers); err != nil {
		return err
	}
	values := map[string]string{}
	var wanted []source.Input
	var taken []string
	look := func(in source.Input, ref string) error {
		name := variable(in)
		if _, ok := d.secrets[name]; ok {
			return nil // its value was in the file
		}
		wanted = append(wanted, in)
		if v, ok := given[name]; ok {
			values[name] = v
			return nil
		}
		if !known || ref != secret.Ref(from, name) {
			return nil
		}
		v, err := secrets.Get(ctx, ref)
		if errors.Is(err, secret.ErrNotFound) {
			return nil
		}
		values[name] = v
		taken = append(taken, name)
		return err
	}
	kept := func(key, ref string) (string, error) {
		if !known || ref != secret.Ref(from, key) {
			return "", nil
		}
		v, err := secrets.Get(ctx, ref)
		if errors.Is(err, secret.ErrNotFound) {
			return "", nil
		}
		taken = append(taken, key)
		return v, err
	}
	if err := d.checkTargets(o.targets, o.secretValue); err != nil {
		return base.AsUsage(err)
	}
	if err := d.recoverSecretFields(o.targets, o.secretValue, kept); err != nil {
		return err
	}
	if err := d.recoverTelemetryHeaders(o.telemetryHeaders, kept); err != nil {
		return err
	}
	d.applySecrets(o.targets)
	for _, name := range slices.Sorted(maps.Keys(d.spec.SecretEnv)) {
		_, again := given[name]
		if _, shared := secret.SharedName(d.spec.SecretEnv[name]); shared && !again {
			continue
		}
		if err := look(source.Input{Name: name, Required: true, Secret: true}, d.spec.SecretEnv[name]); err != nil {
			return err
		}
		d.spec.SecretEnv[name] = secret.Ref(d.spec.Name, name)
	}
	if r := d.spec.Remote; r != nil {
		for _, header := range slices.Sorted(maps.Keys(r.SecretHeaders)) {
			if _, shared := secret.SharedName(r.SecretHeaders[header]); shared {
				continue
			}
			in := source.Input{Name: header, Header: true, Required: true, Secret: true}
			if err := look(in, r.SecretHeaders[header]); err != nil {
				return err
			}
			r.SecretHeaders[header] = secret.Ref(d.spec.Name, variable(in))
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(wanted, func(in source.Input) bool { return variable(in) == name }) {
			errs = append(errs, fmt.Errorf("%s: --from-config holds the whole configuration; -e gives only the values of secrets that it refers to", name))
		}
	}
	if len(errs) > 0 {
		return base.AsUsage(errors.Join(errs...))
	}
	if err := d.askMissing(ctx, app, values, wanted); err != nil {
		return err
	}
	maps.Copy(d.secrets, values)
	if len(taken) > 0 {
		d.notices = append(d.notices, fmt.Sprintf("secrets taken over from workload %s: %s", from, strings.Join(taken, ", ")))
	}
	return nil
}

// hideSecrets moves values that look secret out of the Spec: a file may hold them in
// clear, a stored Spec does not.
func (d *draft) hideSecrets() {
	s := d.spec
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if value := s.Env[name]; value != "" && secret.Looks(name, value) {
			d.secrets[name] = value
			s.SecretEnv = put(s.SecretEnv, name, secret.Ref(s.Name, name))
			delete(s.Env, name)
		}
	}
	for _, f := range s.SecretFields() {
		if _, shared := secret.SharedName(*f.Ref); *f.Ref != "" && !shared && !strings.HasPrefix(*f.Ref, secret.WorkloadPrefix) {
			d.keepSecret(f, *f.Ref)
		}
	}
	d.hideTelemetryHeaders()
}

// sameProgram reports whether two Specs run the same program with the same permissions;
// name, group, port and labels may differ.
func sameProgram(a, b *workload.Spec) bool {
	bare := func(s *workload.Spec) workload.Spec {
		c := *s.Portable()
		c.Name, c.Group, c.Proxy, c.Debug, c.Container.Labels = "", "", workload.Proxy{}, false, nil
		return c
	}
	return reflect.DeepEqual(bare(a), bare(b))
}
