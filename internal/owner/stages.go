package owner

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/authn"
	"github.com/toolhaven/toolhaven/internal/owner/embedded"
	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/webhook"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// stages are the gateway's stages that the Spec configures. That for tools is always there:
// it observes the server's lists.
type stages struct {
	gateway.Stages
	authn     *authn.Stage         // nil without authentication
	server    *embedded.Server     // nil without an embedded authorization server
	audit     *auditlog.Log        // nil without an audit
	recorder  *audit.Recorder      // of audit
	telemetry *telemetry.Telemetry // nil without telemetry
}

// newStages makes the stages. tools is the one for tools. The error of a configuration is one
// that workload.Validate did not find, such as a file that cannot be opened.
func newStages(cfg Config, spec *workload.Spec, server *embedded.Server, tools *toolWatch, log *slog.Logger) (*stages, error) {
	s := &stages{server: server}
	s.Tools = tools.stage
	err := s.open(cfg, spec, tools, log)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stages) open(cfg Config, spec *workload.Spec, tools *toolWatch, log *slog.Logger) (err error) {
	recorder, err := s.openAudit(cfg, spec, log)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	s.recorder, tools.recorder = recorder, recorder
	if spec.Auth != nil {
		refused := func(authn.Refusal) {}
		if recorder != nil {
			refused = func(f authn.Refusal) { recorder.Refused(audit.Refusal(f)) }
		}
		provider := spec.Provider(cfg.Secrets)
		if s.server != nil {
			provider.Keys = s.server.KeySet
		}
		s.authn, err = authn.New(authn.Config{
			Provider: provider, Resource: spec.Resource(),
			KeepToken: workload.PerCaller(spec), Endpoint: spec.Endpoint(), TrustProxyHeaders: spec.Proxy.TrustProxyHeaders, Log: log, Refused: refused,
		})
		if err != nil {
			return fmt.Errorf("authentication of clients: %w", err)
		}
		s.Authenticate = s.server.Before(s.authn.Wrap)
		if s.server != nil {
			s.Navigable = s.server.Navigable
		}
	}
	if spec.Policy != nil {
		p, err := policy.New(*spec.Policy, log)
		if err != nil {
			return fmt.Errorf("authorization: %w", err)
		}
		s.Policy = p.Stage
	}
	if spec.Webhooks != nil {
		hooks, err := webhook.New(*spec.Webhooks, spec.Name, spec.CAFiles(), func(name string) (string, error) { return cfg.Secrets(secret.SharedRef(name)) }, log)
		if err != nil {
			return err
		}
		s.Webhooks = hooks.Wrap
	}
	return s.openTelemetry(cfg, spec, log)
}

// openAudit returns what records, nil without an audit.
func (s *stages) openAudit(cfg Config, spec *workload.Spec, log *slog.Logger) (recorder *audit.Recorder, err error) {
	a := spec.Audit
	if !a.On() {
		return nil, nil
	}
	s.audit, err = auditlog.Open(auditlog.Options{
		File: a.Path(cfg.Store.AuditLog(spec.Name)), MaxSize: a.FileSize(), Accept: a.OnFailure != audit.Refuse, Log: log,
	})
	if err != nil {
		return nil, err
	}
	recorder = audit.New(*a, spec.Name, s.audit)
	s.Audit = recorder.Stage
	return recorder, nil
}

// openTelemetry starts what measures requests, if that is configured.
func (s *stages) openTelemetry(cfg Config, spec *workload.Spec, log *slog.Logger) (err error) {
	if spec.Telemetry == nil {
		return nil
	}
	s.telemetry, err = telemetry.New(*spec.Telemetry, telemetry.Options{
		Workload: spec.Name, Transport: string(spec.Transport), Version: buildinfo.Get().Version,
		Secret: cfg.Secrets, Env: func(name string) string { return spanVariable(spec, name, log) }, CAFiles: spec.CAFiles(), Log: log,
	})
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	s.TelemetryHTTP, s.Telemetry, s.TelemetryServer = s.telemetry.HTTP, s.telemetry.Stage, s.telemetry.ServerStage
	s.Metrics = s.telemetry.Handler()
	return nil
}

// spanVariable is the value of an environment variable for spans: the server's, or else this
// process's. One that looks secret is left out: its name was checked, its value was not.
func spanVariable(spec *workload.Spec, name string, log *slog.Logger) string {
	value := cmp.Or(spec.Env[name], os.Getenv(name))
	if secret.Looks(name, value) {
		log.Warn("an environment variable looks secret and is left out of spans", "name", name)
		return ""
	}
	return value
}

// fault is why the stages do not do all that is configured, "" if they do.
func (s *stages) fault() string {
	if s != nil && s.audit != nil && s.audit.Failing() {
		return "audit records cannot be stored; see the gateway's log"
	}
	return ""
}

// close ends what the stages run in the background, and closes their files, after the gateway.
func (s *stages) close() {
	if s.authn != nil {
		s.authn.Close()
	}
	if s.audit != nil {
		_ = s.audit.Close() // what it could not store was logged
	}
	if s.telemetry != nil {
		s.telemetry.Close()
	}
}
