package serve

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/authn"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/serve/embedded"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/webhook"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Stages are the gateway's stages that the Spec configures, and Tools.
type Stages struct {
	gateway.Stages
	// Recorder records what is audited; nil without an audit.
	Recorder *audit.Recorder
	// Measured measures requests; nil without telemetry.
	Measured *telemetry.Telemetry

	authn  *authn.Stage     // nil without authentication
	server *embedded.Server // nil without an embedded authorization server
	audit  *auditlog.Log    // of Recorder
}

// StagesConfig is what stages are made from.
type StagesConfig struct {
	Spec *workload.Spec
	// Secrets returns the value of a reference.
	Secrets func(ref string) (string, error)
	// AuthServer is the embedded authorization server; nil without one.
	AuthServer *embedded.Server
	// Tools is the stage for tools.
	Tools exchange.Stage
	// AuditFile receives the audit records if the Spec names no file; "" is AuditOut.
	AuditFile string
	AuditOut  io.Writer
	Log       *slog.Logger
}

// NewStages makes the stages, which [Stages.Close] ends. The error of a configuration is one
// that workload.Validate did not find, such as a file that cannot be opened.
func NewStages(cfg StagesConfig) (*Stages, error) {
	s := &Stages{server: cfg.AuthServer}
	s.Tools = cfg.Tools
	if err := s.open(cfg); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stages) open(cfg StagesConfig) (err error) {
	spec, log := cfg.Spec, cfg.Log
	if err := s.openAudit(cfg); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if spec.Auth != nil {
		refused := func(authn.Refusal) {}
		if s.Recorder != nil {
			refused = func(f authn.Refusal) { s.Recorder.Refused(audit.Refusal(f)) }
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
	return s.openTelemetry(cfg)
}

// openAudit makes what records, if that is configured.
func (s *Stages) openAudit(cfg StagesConfig) (err error) {
	a := cfg.Spec.Audit
	if !a.On() {
		return nil
	}
	s.audit, err = auditlog.Open(auditlog.Options{
		File: a.Path(cfg.AuditFile), Out: cfg.AuditOut, MaxSize: a.FileSize(), Accept: a.OnFailure != audit.Refuse, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	s.Recorder = audit.New(*a, cfg.Spec.Name, s.audit)
	s.Audit = s.Recorder.Stage
	return nil
}

// openTelemetry starts what measures requests, if that is configured.
func (s *Stages) openTelemetry(cfg StagesConfig) (err error) {
	spec, log := cfg.Spec, cfg.Log
	if spec.Telemetry == nil {
		return nil
	}
	s.Measured, err = telemetry.New(*spec.Telemetry, telemetry.Options{
		Workload: spec.Name, Transport: string(spec.Transport), Version: buildinfo.Get().Version,
		Secret: cfg.Secrets, Env: func(name string) string { return spanVariable(spec, name, log) },
		Source: func(r *http.Request) string { return httpd.SourceOf(r, spec.Proxy.TrustProxyHeaders).Address }, CAFiles: spec.CAFiles(), Log: log,
	})
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	s.TelemetryHTTP, s.Telemetry, s.TelemetryServer = s.Measured.HTTP, s.Measured.Stage, s.Measured.ServerStage
	s.Metrics = s.Measured.Handler()
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

// Fault is why the stages do not do all that is configured, "" if they do.
func (s *Stages) Fault() string {
	if s != nil && s.audit != nil && s.audit.Failing() {
		return "audit records cannot be stored; see the gateway's log"
	}
	return ""
}

// Close ends what the stages run in the background, and closes their files, after the gateway.
func (s *Stages) Close() {
	if s.authn != nil {
		s.authn.Close()
	}
	if s.audit != nil {
		_ = s.audit.Close() // what it could not store was logged
	}
	if s.Measured != nil {
		s.Measured.Close()
	}
}
