// Package toolhive reads the run configurations that ToolHive exports.
package toolhive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/audit"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/webhook"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// toolHive is the configuration that ToolHive's export writes, schema v0.1.0.
type toolHive struct {
	toolHiveHonoured
	toolHiveNeutral
	toolHiveBeyond
}

// toolHiveHonoured are the keys with a feature here.
type toolHiveHonoured struct {
	SchemaVersion     string                      `json:"schema_version"`
	Name              string                      `json:"name"`
	ContainerName     string                      `json:"container_name"`
	BaseName          string                      `json:"base_name"`
	Image             string                      `json:"image"`
	RemoteURL         string                      `json:"remote_url"`
	CmdArgs           []string                    `json:"cmd_args"`
	Transport         string                      `json:"transport"`
	Host              string                      `json:"host"`
	Port              int                         `json:"port"`
	TargetHost        string                      `json:"target_host"`
	TargetPort        int                         `json:"target_port"`
	EnvVars           map[string]string           `json:"env_vars"`
	Secrets           []string                    `json:"secrets"` // NAME,target=VARIABLE
	Volumes           []string                    `json:"volumes"`
	Publish           []string                    `json:"publish"`
	ContainerLabels   map[string]string           `json:"container_labels"`
	PermissionProfile *workload.Permissions       `json:"permission_profile"`
	ProxyMode         string                      `json:"proxy_mode"`
	Group             string                      `json:"group"`
	SessionTTL        workload.Duration           `json:"session_ttl"`
	Stateless         bool                        `json:"stateless"`
	EndpointPrefix    string                      `json:"endpoint_prefix"`
	TrustProxyHeaders bool                        `json:"trust_proxy_headers"`
	Debug             bool                        `json:"debug"`
	ToolsFilter       []string                    `json:"tools_filter"`
	ToolsOverride     map[string]toolset.Override `json:"tools_override"`
	Authz             json.RawMessage             `json:"authz_config"`
	Audit             *audit.Config               `json:"audit_config"`
	Validating        []webhook.Hook              `json:"validating_webhooks"`
	Mutating          []webhook.Hook              `json:"mutating_webhooks"`
	OIDC              *toolHiveOIDC               `json:"oidc_config"`
	CABundle          string                      `json:"thv_ca_bundle"`
	JWKSTokenFile     string                      `json:"jwks_auth_token_file"`
	Telemetry         *toolHiveTelemetry          `json:"telemetry_config"`
	RemoteAuth        *toolHiveRemoteAuth         `json:"remote_auth_config"`
	TokenExchange     *toolHiveExchange           `json:"token_exchange_config"`
	HeaderForward     *toolHiveHeaders            `json:"header_forward"`
	Ignore            *toolHiveIgnore             `json:"ignore_config"`
	IsolateNetwork    bool                        `json:"isolate_network"`
	AllowGateway      bool                        `json:"allow_docker_gateway"`
}

// toolHiveIgnore has the names of Go fields as its keys.
type toolHiveIgnore struct{ LoadGlobal, PrintOverlays bool }

// toolHiveTelemetry is the configuration of telemetry. Its ports have no effect here:
// /metrics is on the gateway's own.
type toolHiveTelemetry struct {
	Endpoint        string            `json:"endpoint"`
	ServiceName     string            `json:"serviceName"`
	ServiceVersion  string            `json:"serviceVersion"`
	Tracing         bool              `json:"tracingEnabled"`
	Metrics         bool              `json:"metricsEnabled"`
	SamplingRate    string            `json:"samplingRate"`
	Headers         map[string]string `json:"headers"`
	Insecure        bool              `json:"insecure"`
	Prometheus      bool              `json:"enablePrometheusMetricsPath"`
	PrometheusPort  int               `json:"prometheusPort"`
	OnTransportPort bool              `json:"metricsOnTransportPort"`
	EnvVars         []string          `json:"environmentVariables"`
	Attributes      map[string]string `json:"customAttributes"`
	Legacy          bool              `json:"useLegacyAttributes"`
	CACertPath      string            `json:"caCertPath"`
}

// telemetry is the configuration of telemetry; nil if nothing is sent. The values of headers
// are still in it.
func (t *toolHive) telemetry() (*telemetry.Config, error) {
	c := t.Telemetry
	if c == nil || !c.Prometheus && (c.Endpoint == "" || !c.Tracing && !c.Metrics) {
		return nil, nil
	}
	if c.CACertPath != "" && c.CACertPath != t.caBundle() {
		return nil, errors.New("telemetry_config: caCertPath differs from thv_ca_bundle; one file has all authorities here")
	}
	out := &telemetry.Config{Prometheus: c.Prometheus, ServiceName: c.ServiceName, Attributes: c.Attributes, LegacyAttributes: &c.Legacy}
	if c.Endpoint == "" || !c.Tracing && !c.Metrics {
		return out, nil
	}
	out.Endpoint, out.Insecure, out.Headers, out.EnvVars, out.Tracing, out.Metrics = c.Endpoint, c.Insecure, c.Headers, c.EnvVars, &c.Tracing, &c.Metrics
	if c.SamplingRate != "" {
		rate, err := strconv.ParseFloat(c.SamplingRate, 64)
		if err != nil {
			return nil, fmt.Errorf("telemetry_config: samplingRate %q is not a number", c.SamplingRate)
		}
		out.SamplingRate = &rate
	}
	return out, nil
}

// toolHiveOIDC has the names of Go fields as its keys.
type toolHiveOIDC struct {
	Issuer, Audience, JWKSURL, ClientID, ClientSecret string
	CACertPath, AuthTokenFile                         string
	AllowPrivateIP, InsecureAllowHTTP                 bool
	IntrospectionURL, ResourceURL                     string
	Scopes                                            []string
}

// auth is the configuration of client authentication; nil for none. The client secret is
// still in it.
func (t *toolHive) auth() *workload.Auth {
	c := t.OIDC
	if c == nil || reflect.ValueOf(*c).IsZero() {
		return nil
	}
	a := &workload.Auth{
		IssuerURL: c.Issuer, Audience: c.Audience, JWKSURL: c.JWKSURL, IntrospectionURL: c.IntrospectionURL,
		Scopes: c.Scopes, AllowHTTP: c.InsecureAllowHTTP, AllowPrivateIP: c.AllowPrivateIP,
		AuthTokenFile: cmp.Or(c.AuthTokenFile, t.JWKSTokenFile), ResourceURL: c.ResourceURL,
	}
	if c.IntrospectionURL != "" { // the client is used for nothing else
		a.ClientID, a.ClientSecret = c.ClientID, c.ClientSecret
	}
	return a
}

// caBundle is the file of authorities for requests of the gateway's own.
func (t *toolHive) caBundle() string {
	if t.OIDC != nil && t.OIDC.CACertPath != "" {
		return t.OIDC.CACertPath
	}
	if t.CABundle == "" && t.Telemetry != nil {
		return t.Telemetry.CACertPath
	}
	return t.CABundle
}

// toolHiveNeutral are keys that record an origin or repeat other keys.
type toolHiveNeutral struct {
	ProfileName       json.RawMessage `json:"permission_profile_name_or_path"`
	RegistryAPI       json.RawMessage `json:"registry_api_url"`
	RegistryURL       json.RawMessage `json:"registry_url"`
	RegistryServer    json.RawMessage `json:"registry_server_name"`
	EnvFileDir        json.RawMessage `json:"env_file_dir"`
	Generation        json.RawMessage `json:"mcpserver_generation"`
	RuntimeConfig     json.RawMessage `json:"runtime_config"`
	MiddlewareConfigs json.RawMessage `json:"middleware_configs"`
}

// toolHiveBeyond are keys of features that this version does not have. A file that sets
// one is refused: a server must not run with less protection than its file states.
type toolHiveBeyond struct {
	AllowedOrigins       json.RawMessage `json:"allowed_origins"`
	UpstreamSwap         json.RawMessage `json:"upstream_swap_config"`
	AWSSTS               json.RawMessage `json:"aws_sts_config"`
	AuthServer           json.RawMessage `json:"embedded_auth_server_config"`
	AuthzPath            json.RawMessage `json:"authz_config_path"`
	AuditPath            json.RawMessage `json:"audit_config_path"`
	RateLimit            json.RawMessage `json:"rate_limit_config"`
	RateLimitNamespace   json.RawMessage `json:"rate_limit_namespace"`
	Scaling              json.RawMessage `json:"scaling_config"`
	PodPatch             json.RawMessage `json:"k8s_pod_template_patch"`
	StrictValidation     json.RawMessage `json:"strict_protocol_validation"`
	AdditionalMiddleware json.RawMessage `json:"additional_middleware_configs"`
}

// set lists the keys that have a value.
func (b *toolHiveBeyond) set() []string {
	var keys []string
	v := reflect.ValueOf(b).Elem()
	for i := range v.NumField() {
		if raw, ok := v.Field(i).Interface().(json.RawMessage); ok && !isEmptyJSON(raw) {
			keys = append(keys, v.Type().Field(i).Tag.Get("json"))
		}
	}
	return keys
}

func isEmptyJSON(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", "0", `""`, "{}", "[]":
		return true
	}
	return false
}

// Decode decodes a run configuration that ToolHive exported. It also returns notices about what
// has no effect here. The error has every setting that cannot be taken over.
func Decode(content []byte) (*workload.Spec, []string, error) {
	var t toolHive
	if err := runflag.DecodeStrict(content, &t); err != nil {
		return nil, nil, err
	}
	if t.SchemaVersion != "v0.1.0" {
		return nil, nil, fmt.Errorf("its schema_version is %q; v0.1.0 can be read", t.SchemaVersion)
	}
	if keys := t.set(); len(keys) > 0 {
		return nil, nil, fmt.Errorf("this version of thv does not have the features of %s; remove these keys to run without", strings.Join(keys, ", "))
	}
	spec, err := t.spec()
	return spec, t.notices(), err
}

// notices lists what is ignored and may be missed.
func (t *toolHive) notices() []string {
	var notices []string
	var chain []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(t.MiddlewareConfigs, &chain) == nil && len(chain) > 0 {
		types := make([]string, len(chain))
		for i, m := range chain {
			types[i] = m.Type
		}
		notices = append(notices, "the file's middleware_configs are not used ("+strings.Join(types, ", ")+"); what thv does follows from its other keys")
	}
	return notices
}

// toolHiveSecret is an entry of secrets.
var toolHiveSecret = regexp.MustCompile(`^[^,]+,target=(.+)$`)

func (t *toolHive) spec() (*workload.Spec, error) {
	s := &workload.Spec{
		Schema: workload.Schema, Name: t.Name, Group: t.Group, Debug: t.Debug,
		Source:    workload.Source{Kind: "config", Ref: t.Image + t.RemoteURL},
		Args:      t.CmdArgs,
		Transport: workload.Transport(t.Transport),
		Auth:      t.auth(),
		CABundle:  t.caBundle(),
		Proxy: workload.Proxy{
			Host: t.Host, Port: t.Port, Mode: t.ProxyMode, EndpointPrefix: t.EndpointPrefix,
			SessionTTL: t.SessionTTL, Stateless: t.Stateless, TrustProxyHeaders: t.TrustProxyHeaders,
		},
		Tools: workload.Tools{Filter: t.ToolsFilter, Override: t.ToolsOverride},
		Audit: t.Audit,
	}
	if hooks := (webhook.Config{Validating: t.Validating, Mutating: t.Mutating}); !hooks.IsZero() {
		s.Webhooks = &hooks
	}
	var err error
	if s.Telemetry, err = t.telemetry(); err != nil {
		return nil, err
	}
	if !isEmptyJSON(t.Authz) {
		if s.Policy, err = runflag.ParsePolicy(t.Authz, ".json"); err != nil {
			return nil, fmt.Errorf("authz_config: %w", err)
		}
	}
	if s.Group == "" {
		s.Group = manager.DefaultGroup
	}
	if s.Proxy.Host == "" || s.Proxy.Host == "localhost" {
		s.Proxy.Host = "127.0.0.1"
	}
	if s.Proxy.Mode != "sse" || t.Transport != "stdio" {
		s.Proxy.Mode = "streamable-http"
	}
	if s.TokenExchange, err = t.tokenExchange(); err != nil {
		return nil, err
	}
	if t.RemoteURL != "" {
		if s.Remote, err = t.remote(); err != nil {
			return nil, err
		}
		s.Args = nil
		if len(t.Secrets) > 0 {
			return nil, errors.New("secrets: variables are for servers that run here, not for a remote URL")
		}
		return s, nil
	}
	s.Image, s.Env = t.Image, t.EnvVars
	s.Container.IsolateNetwork, s.Container.AllowDockerGateway = t.IsolateNetwork, t.AllowGateway && t.IsolateNetwork
	s.Container.SkipGlobalIgnore = t.Ignore != nil && !t.Ignore.LoadGlobal
	for _, name := range []string{"MCP_TRANSPORT", "MCP_PORT", "FASTMCP_PORT", "MCP_HOST"} {
		delete(s.Env, name) // set from the transport and the port
	}
	if t.Transport != "stdio" {
		s.TargetHost, s.TargetPort = t.TargetHost, t.TargetPort
		if s.TargetHost == "" {
			s.TargetHost = "127.0.0.1"
		}
	}
	cwd, err := os.Getwd() // relative paths are resolved against it
	if err != nil {
		return nil, fmt.Errorf("find the current directory: %w", err)
	}
	var errs []error
	for _, v := range t.Secrets {
		m := toolHiveSecret.FindStringSubmatch(v)
		if m == nil {
			errs = append(errs, fmt.Errorf("secrets: %q is not NAME,target=VARIABLE", v))
			continue
		}
		// Its value is in ToolHive's store; run prompts for it.
		s.SecretEnv = put(s.SecretEnv, m[1], "")
		delete(s.Env, m[1])
	}
	for _, v := range t.Volumes {
		m, err := runflag.ParseMount(v, cwd)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.Container.Mounts = append(s.Container.Mounts, m)
	}
	for _, v := range t.Publish {
		p, err := runflag.ParsePort(v)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.Container.Publish = append(s.Container.Publish, p)
	}
	s.Container.Permissions, _ = runflag.BuiltinPermissions("network")
	if t.PermissionProfile != nil {
		mounts, err := runflag.ProfileMounts(*t.PermissionProfile, cwd)
		if err != nil {
			errs = append(errs, err)
		}
		s.Container.Mounts = runflag.MergeMounts(mounts, s.Container.Mounts)
		s.Container.Permissions = *t.PermissionProfile
		s.Container.Permissions.Read, s.Container.Permissions.Write = nil, nil
	}
	for key, value := range t.ContainerLabels {
		if strings.HasPrefix(key, "toolhive") {
			continue // internal to ToolHive
		}
		s.Container.Labels = put(s.Container.Labels, key, value)
	}
	return s, errors.Join(errs...)
}

// put sets a key of a map that may be nil.
func put(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}
