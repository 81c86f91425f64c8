package workload

import (
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/telemetry"
)

func TestValidate_Telemetry(t *testing.T) {
	for want, c := range map[string]telemetry.Config{
		"":                      {Endpoint: "c:1", Headers: map[string]string{"Api-Key": "workload/a/otel-header-api-key"}, EnvVars: []string{"STAGE"}},
		"there is nothing":      {},
		"header Api-Key":        {Endpoint: "c:1", Headers: map[string]string{"Api-Key": "workload/b/otel-header-api-key"}},
		"header X-Key":          {Endpoint: "c:1", Headers: map[string]string{"X-Key": "s3cret"}},
		"API_TOKEN looks as if": {Endpoint: "c:1", EnvVars: []string{"API_TOKEN"}},
		`variable "1A"`:         {Endpoint: "c:1", EnvVars: []string{"1A"}},
	} {
		s := &Spec{Name: "a", Telemetry: &c}
		err := validateTelemetry(s)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
