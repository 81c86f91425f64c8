package runcmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/telemetry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func parseTelemetry(t *testing.T, env map[string]string, args ...string) (*telemetry.Config, *telemetryOptions, error) {
	t.Helper()
	var o telemetryOptions
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	addTelemetryFlags(f, &o)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := o.parse(f.Changed, func(name string) string { return env[name] })
	return c, &o, err
}

func TestTelemetryFlags(t *testing.T) {
	t.Parallel()
	half, no := 0.5, false
	for args, want := range map[string]*telemetry.Config{
		"": nil,
		"--otel-tracing-enabled=false --otel-use-legacy-attributes=false --otel-insecure=false": nil,
		"--otel-endpoint=c:1":                                                      {Endpoint: "c:1"},
		"--otel-endpoint=c:1 --otel-insecure":                                      {Endpoint: "c:1", Insecure: true},
		"--otel-endpoint=c:1 --otel-sampling-rate=0.5":                             {Endpoint: "c:1", SamplingRate: &half},
		"--otel-endpoint=c:1 --otel-tracing-enabled=false":                         {Endpoint: "c:1", Tracing: &no},
		"--otel-endpoint=c:1 --otel-metrics-enabled=false":                         {Endpoint: "c:1", Metrics: &no},
		"--otel-endpoint=c:1 --otel-use-legacy-attributes=false":                   {Endpoint: "c:1", LegacyAttributes: &no},
		"--otel-endpoint=c:1 --otel-env-vars=A,B --otel-env-vars=C":                {Endpoint: "c:1", EnvVars: []string{"A", "B", "C"}},
		"--otel-enable-prometheus-metrics-path --otel-service-name=x":              {Prometheus: true, ServiceName: "x"},
		"--otel-enable-prometheus-metrics-path --otel-custom-attributes=a=1,b=c=d": {Prometheus: true, Attributes: map[string]string{"a": "1", "b": "c=d"}},
	} {
		got, _, err := parseTelemetry(t, nil, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", args, d)
		}
	}
	if c, _, err := parseTelemetry(t, map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "--otel-endpoint=c:1"); err != nil || c.Protocol != telemetry.GRPC {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTelemetryFlags_Faults(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--otel-endpoint=":       "--otel-endpoint is empty",
		"--otel-sampling-rate=1": "--otel-sampling-rate has no effect without --otel-endpoint",
		"--otel-headers=a=b":     "--otel-headers has no effect without --otel-endpoint",
		"--otel-insecure":        "--otel-insecure has no effect without --otel-endpoint",
		"--otel-service-name=x":  "or --otel-enable-prometheus-metrics-path",
		"--otel-enable-prometheus-metrics-path --otel-env-vars=A": "--otel-env-vars has no effect without --otel-endpoint",
		"--otel-endpoint=c:1 --otel-custom-attributes=a":          "write key=value",
		"--otel-endpoint=c:1 --otel-custom-attributes=a=1,a=2":    "a is there twice",
	} {
		if _, _, err := parseTelemetry(t, nil, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestTelemetryHeaders(t *testing.T) {
	t.Parallel()
	env := map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "api-key=of%20the%20environment, x-other = 1"}
	_, o, err := parseTelemetry(t, env, "--otel-endpoint=c:1", "--otel-headers=X-Tenant=a,b=c")
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.parseHeaders(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Api-Key": "of the environment", "X-Other": "1", "X-Tenant": "a,b=c"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	d := &draft{spec: &workload.Spec{Name: "files", Telemetry: &telemetry.Config{Endpoint: "c:1"}}, secrets: map[string]string{}}
	d.keepTelemetryHeaders(got)
	if ref := d.spec.Telemetry.Headers["Api-Key"]; ref != "workload/files/otel-header-api-key" || d.secrets["otel-header-api-key"] != "of the environment" {
		t.Errorf("reference %q, secrets %v", ref, d.secrets)
	}
	for _, args := range []string{"--otel-headers=s3cret", "--otel-headers=Content-Type=s3cret", "--otel-headers=a b=s3cret", "--otel-headers=a=s3cret\n"} {
		_, o, _ := parseTelemetry(t, nil, "--otel-endpoint=c:1", args)
		if _, err := o.parseHeaders(func(string) string { return "" }); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestRecoverTelemetryHeaders(t *testing.T) {
	t.Parallel()
	const ref = "workload/a/otel-header-api-key"
	kept := func(value string, err error) func(string, string) (string, error) {
		return func(string, string) (string, error) { return value, err }
	}
	for _, c := range []struct {
		name, inFile string
		given        map[string]string
		stored       func(key, ref string) (string, error)
		want, fault  string
	}{
		{"of the command line", ref, map[string]string{"Api-Key": "given"}, nil, "given", ""},
		{"of the same workload", ref, nil, kept("stored", nil), "stored", ""},
		{"in clear in the file", "in clear", nil, nil, "in clear", ""},
		{"missing", ref, nil, kept("", nil), "", "--otel-headers Api-Key=... or in OTEL_EXPORTER_OTLP_HEADERS"},
		{"of a broken store", ref, nil, kept("", errors.New("broken")), "", "broken"},
	} {
		d := &draft{spec: &workload.Spec{Name: "b", Telemetry: &telemetry.Config{Endpoint: "c:1", Headers: map[string]string{"Api-Key": c.inFile}}}, secrets: map[string]string{}}
		d.hideSecrets()
		err := d.recoverTelemetryHeaders(c.given, c.stored)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := d.secrets["otel-header-api-key"]; got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
		if got := d.spec.Telemetry.Headers["Api-Key"]; c.want != "" && got != "workload/b/otel-header-api-key" {
			t.Errorf("%s: the reference is %q", c.name, got)
		}
	}
}

func TestDecodeExport_ToolHiveTelemetry(t *testing.T) {
	t.Parallel()
	file := func(more string) []byte {
		return []byte(`{"schema_version":"v0.1.0","name":"a","remote_url":"https://x.example/mcp","transport":"streamable-http","host":"127.0.0.1","port":12345,"telemetry_config":` + more + `}`)
	}
	s, _, err := decodeExport(file(`{"endpoint":"c.example:4318","serviceName":"x","serviceVersion":"1","tracingEnabled":true,"metricsEnabled":false,"samplingRate":"0.05",
		"headers":{"Api-Key":"s"},"insecure":true,"enablePrometheusMetricsPath":true,"prometheusPort":0,"metricsOnTransportPort":true,
		"environmentVariables":["A"],"customAttributes":{"a":"b"},"useLegacyAttributes":false,"caCertPath":"/ca.pem"}`))
	if err != nil {
		t.Fatal(err)
	}
	rate, yes, no := 0.05, true, false
	want := &telemetry.Config{
		Endpoint: "c.example:4318", ServiceName: "x", Tracing: &yes, Metrics: &no, SamplingRate: &rate, Headers: map[string]string{"Api-Key": "s"}, Insecure: true,
		Prometheus: true, EnvVars: []string{"A"}, Attributes: map[string]string{"a": "b"}, LegacyAttributes: &no,
	}
	if d := cmp.Diff(want, s.Telemetry); d != "" || s.CABundle != "/ca.pem" {
		t.Errorf("%s, authorities %q", d, s.CABundle)
	}
	for more, fault := range map[string]string{`{"endpoint":"c:1","tracingEnabled":true,"samplingRate":"x"}`: "samplingRate", `{"endpont":"c:1"}`: "endpont"} {
		if _, _, err := decodeExport(file(more)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", more, err)
		}
	}
	for _, more := range []string{`null`, `{}`, `{"endpoint":"c:1"}`} {
		if s, _, err := decodeExport(file(more)); err != nil || s.Telemetry != nil {
			t.Errorf("%s: %v", more, err)
		}
	}
}
