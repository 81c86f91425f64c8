package runcmd

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Environment variables of OpenTelemetry that complete --otel-endpoint (OTLP exporter
// specification). The arguments of a process are visible to others, its environment is not.
const (
	envTelemetryHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
	envTelemetryProtocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
)

// telemetryOptions are the flags of telemetry.
type telemetryOptions struct {
	endpoint, service, attributes   string
	headers, envVars                []string
	rate                            float64
	insecure, tracing, metrics      bool
	prometheus, useLegacyAttributes bool
}

func addTelemetryFlags(f *pflag.FlagSet, o *telemetryOptions) {
	f.StringVar(&o.endpoint, "otel-endpoint", "", "OTLP endpoint URL; gRPC for grpc:// and for port 4317 without a path, otherwise HTTP")
	f.StringArrayVar(&o.headers, "otel-headers", nil, "OTLP headers, format key=value; values are kept as secrets; better in OTEL_EXPORTER_OTLP_HEADERS")
	f.BoolVar(&o.insecure, "otel-insecure", false, "Use HTTP instead of HTTPS toward the endpoint")
	f.StringVar(&o.service, "otel-service-name", "", "Service name (default: thv-<workload-name>)")
	f.Float64Var(&o.rate, "otel-sampling-rate", telemetry.DefaultSamplingRate, "Trace sampling rate, range 0.0 to 1.0; a request with a trace context is sampled as that is")
	f.BoolVar(&o.tracing, "otel-tracing-enabled", true, "Tracing (when an endpoint is configured)")
	f.BoolVar(&o.metrics, "otel-metrics-enabled", true, "OTLP metrics (when an endpoint is configured)")
	f.BoolVar(&o.prometheus, "otel-enable-prometheus-metrics-path", false, "Serve a /metrics path on the main transport port")
	f.StringVar(&o.attributes, "otel-custom-attributes", "", "Resource attributes, format key=value comma-separated")
	f.StringSliceVar(&o.envVars, "otel-env-vars", nil, "Environment variable names included in spans, comma-separated")
	f.BoolVar(&o.useLegacyAttributes, "otel-use-legacy-attributes", true, "Emit legacy attribute names alongside new semantic-convention names")
}

// parse returns the configuration of the flags, without the headers; nil when there is
// nothing to send to.
func (o *telemetryOptions) parse(given func(string) bool, env func(string) string) (*telemetry.Config, error) {
	var errs []error
	if given("otel-endpoint") && o.endpoint == "" {
		errs = append(errs, errors.New("--otel-endpoint is empty; leave it out to send nothing"))
	}
	needs := func(what string, flags ...string) {
		for _, flag := range flags {
			if given(flag) && (flag != "otel-insecure" || o.insecure) {
				errs = append(errs, fmt.Errorf("--%s has no effect without %s", flag, what))
			}
		}
	}
	if o.endpoint == "" && len(errs) == 0 {
		needs("--otel-endpoint", "otel-headers", "otel-insecure", "otel-sampling-rate", "otel-env-vars")
		if !o.prometheus {
			needs("--otel-endpoint or --otel-enable-prometheus-metrics-path", "otel-service-name", "otel-custom-attributes")
			return nil, errors.Join(errs...)
		}
	}
	c := &telemetry.Config{
		Endpoint: o.endpoint, Insecure: o.insecure, ServiceName: o.service, Prometheus: o.prometheus, EnvVars: o.envVars,
	}
	if c.Endpoint != "" {
		c.Protocol = env(envTelemetryProtocol)
	}
	if given("otel-sampling-rate") {
		c.SamplingRate = &o.rate
	}
	for flag, to := range map[string]struct {
		value bool
		field **bool
	}{
		"otel-tracing-enabled": {o.tracing, &c.Tracing}, "otel-metrics-enabled": {o.metrics, &c.Metrics},
		"otel-use-legacy-attributes": {o.useLegacyAttributes, &c.LegacyAttributes},
	} {
		if given(flag) {
			*to.field = &to.value
		}
	}
	var err error
	c.Attributes, err = parseAttributes(o.attributes)
	return c, errors.Join(append(errs, err)...)
}

// parseAttributes reads key=value pairs with commas between them.
func parseAttributes(list string) (map[string]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	all := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("--otel-custom-attributes %q: write key=value, with commas between them", pair)
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("--otel-custom-attributes: %s is there twice", key)
		}
		all[key] = strings.TrimSpace(value)
	}
	return all, nil
}

// parseHeaders returns the values of headers, by name: of the environment, and of the flag,
// which prevails. No error repeats a value.
func (o *telemetryOptions) parseHeaders(env func(string) string) (map[string]string, error) {
	all := map[string]string{}
	var errs []error
	add := func(from, name, value string) {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if err := telemetry.ValidHeader(name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from, err))
			return
		}
		all[name] = value
	}
	for pair := range strings.SplitSeq(env(envTelemetryHeaders), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			errs = append(errs, errors.New(envTelemetryHeaders+": write key=value, with commas between them and values percent-encoded"))
			continue
		}
		add(envTelemetryHeaders, name, value)
	}
	for _, pair := range o.headers {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			errs = append(errs, errors.New("--otel-headers: write key=value"))
			continue
		}
		add("--otel-headers", name, value)
	}
	return all, errors.Join(errs...)
}

// keepTelemetryHeaders stores the values of headers apart, if the Spec has an endpoint.
func (d *draft) keepTelemetryHeaders(values map[string]string) {
	t := d.spec.Telemetry
	if t == nil || t.Endpoint == "" {
		return
	}
	for name, value := range values {
		key := workload.TelemetryHeaderKey(name)
		t.Headers = put(t.Headers, name, secret.Ref(d.spec.Name, key))
		d.secrets[key] = value
	}
}

// recoverTelemetryHeaders finds the values of the headers that an imported configuration
// refers to: given are those of the command line and the environment; stored returns that of
// a key in the very same workload here.
func (d *draft) recoverTelemetryHeaders(given map[string]string, stored func(key, ref string) (string, error)) error {
	t := d.spec.Telemetry
	if t == nil {
		return nil
	}
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		key := workload.TelemetryHeaderKey(name)
		value, ok := given[http.CanonicalHeaderKey(name)]
		if !ok {
			value, ok = d.secrets[key]
		}
		if !ok {
			var err error
			if value, err = stored(key, t.Headers[name]); err != nil {
				return err
			}
		}
		if value == "" {
			return base.Usage("the configuration needs the value of the header %s for its telemetry; give it with --otel-headers %s=... or in %s", name, name, envTelemetryHeaders)
		}
		values[name] = value
	}
	d.keepTelemetryHeaders(values)
	return nil
}

// hideTelemetryHeaders moves values of headers out of the Spec, which has references only.
func (d *draft) hideTelemetryHeaders() {
	t := d.spec.Telemetry
	if t == nil {
		return
	}
	for name, value := range t.Headers {
		if !strings.HasPrefix(value, "workload/") {
			d.keepTelemetryHeaders(map[string]string{name: value})
		}
	}
}
