package workload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// TelemetryHeaderKey is the key, among a workload's secrets, of the value of a header that is
// sent to the collector of telemetry. No environment variable has such a name.
func TelemetryHeaderKey(header string) string { return "otel-header-" + strings.ToLower(header) }

func validateTelemetry(s *Spec) error {
	t := s.Telemetry
	if t == nil {
		return nil
	}
	errs := []error{t.Validate()}
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("telemetry: "+format, args...)) }
	for name, ref := range t.Headers {
		if ref != secret.Ref(s.Name, TelemetryHeaderKey(name)) {
			// It may be the secret itself: it is not repeated.
			add("header %s: its value is not the reference to a secret of workload %q", name, s.Name)
		}
	}
	for _, name := range t.EnvVars {
		if err := ValidEnvName(name); err != nil {
			add("%w", err)
		} else if secret.Looks(name, "") {
			add("environment variable %s looks as if it had a secret, and spans are not a place for one", name)
		}
	}
	return errors.Join(errs...)
}
