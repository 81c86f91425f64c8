//go:build integration

package scenario

import (
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhaven/toolhaven/test/otlp"
)

// otlpCollector is the command otlp NAME http|grpc|tls [CA]: it starts a collector of
// OpenTelemetry, which ends with the script, and sets NAME to its address. With tls the file
// CA has its authority, and NAME is a URL.
func otlpCollector(ts *testscript.TestScript, _ bool, args []string) {
	t := ts.Value(testKey{}).(testing.TB)
	c := otlp.New()
	here(ts).collector = c
	switch args[1] {
	case "http":
		ts.Setenv(args[0], c.OverHTTP(t))
	case "grpc":
		ts.Setenv(args[0], c.OverGRPC(t, nil))
	case "tls":
		url, file := c.OverTLS(t)
		ts.Setenv(args[0], url)
		ts.Setenv(args[2], file)
	default:
		ts.Fatalf("usage: otlp NAME http|grpc|tls [CA]")
	}
}

// received PATTERN waits until a line of what the last collector received matches, in the
// form of [otlp.Collector.Lines]. With "!" no line may match, now.
func received(ts *testscript.TestScript, neg bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		lines := here(ts).collector.Lines()
		switch found := pattern.MatchString(lines); {
		case found && neg:
			ts.Fatalf("received %s:\n%s", args[0], lines)
		case found || neg:
			return
		case time.Now().After(deadline):
			ts.Fatalf("not received: %s, but\n%s", args[0], lines)
		}
	}
}
