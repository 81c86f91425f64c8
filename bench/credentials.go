package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
)

// credentials measures what a credential that is kept adds to a call: a token exchange, in
// the gateway and alone, a login alone, and a signature for AWS alone; and how many tokens
// are requested for many calls of one caller.
func (b *bench) credentials(ctx context.Context) ([]result, error) {
	var requests atomic.Int64
	issuer, token, err := newIssuer(map[string]http.Handler{"/token": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"exchanged","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3600}`)
	})})
	if err != nil {
		return nil, err
	}
	defer issuer.Close()
	address, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	authenticated := []string{"--transport", "streamable-http", "--oidc-issuer", issuer.URL, "--oidc-audience", resource}
	var ways []way // without an exchange, and with one
	for _, flags := range [][]string{{"--name", "as-is"}, {"--name", "exchanged", "--token-exchange-url", issuer.URL + "/token", "--token-exchange-audience", "b"}} {
		w := way{open: open, token: token}
		args := append(append([]string{"run", "http://" + address + "/mcp"}, authenticated...), flags...)
		if w.url, err = b.thv(ctx, args...); err != nil {
			return nil, err
		}
		ways = append(ways, w)
	}
	calls := b.times(1000)
	s, err := open(ctx, ways[1].client(), ways[1].url)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	for range calls {
		if err := s.call(ctx); err != nil {
			return nil, err
		}
	}
	results := []result{atMost(itself(fmt.Sprintf("token exchanges for %d calls of one caller", calls), "", float64(requests.Load())), 1, "one")}
	var with, without []float64
	for range turns {
		for i, times := range []*[]float64{&without, &with} {
			v, err := b.latency(ctx, ways[i])
			if err != nil {
				return nil, err
			}
			*times = append(*times, v)
		}
	}
	results = append(results, difference("a call with an exchanged token, beside one without", "µs", median(with), median(without)))
	if _, err := b.thv(ctx, "rm", "--all"); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark(Exchange_Cached|Keyed_Token|Credential_Kept)$",
		"-count", fmt.Sprint(b.times(5)), "-benchtime", fmt.Sprintf("%dms", b.times(400)), "./internal/credential", "./internal/oauthclient", "./internal/credential/aws")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	measured := parseBenchmarks(string(out))
	for _, row := range []struct {
		name, benchmark string
		limit           float64 // µs
	}{
		{"a kept exchanged token", "Exchange_Cached", 20},
		{"the kept token of a login", "Keyed_Token", 20},
		{"a signature with kept credentials of AWS", "Credential_Kept", 50},
	} {
		times := measured[row.benchmark+" ns/op"]
		if len(times) == 0 {
			return nil, fmt.Errorf("go test -bench has no %s:\n%s", row.benchmark, out)
		}
		results = append(results, atMost(itself(row.name, "µs", median(times)/1e3), row.limit, fmt.Sprintf("under %.0f µs", row.limit)))
	}
	return results, nil
}
