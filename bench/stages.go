package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// benchPolicies permit the calls that are measured, by the tool's name and by an attribute
// that they do not have.
const benchPolicies = `{"version":"1.0","type":"cedarv1","cedar":{"policies":[
	"permit(principal, action == Action::\"call_tool\", resource == Tool::\"echo\");",
	"forbid(principal, action, resource) when { resource has arg_path && resource.arg_path like \"/etc/*\" };"]}}`

// stage is an optional stage of the gateway: the flags that switch it on, and whether its
// clients need a token.
type stage struct {
	name  string
	flags []string
	token bool
}

// optionalStages are those that are measured. A new stage is added here.
func (b *bench) optionalStages(issuer string) ([]stage, error) {
	policies := filepath.Join(b.dir, "policies.json")
	if err := os.WriteFile(policies, []byte(benchPolicies), 0o600); err != nil {
		return nil, err
	}
	return []stage{
		{"access token", []string{"--oidc-issuer", issuer, "--oidc-audience", resource}, true},
		{"tool filter", []string{"--tools", "echo,env"}, false},
		{"Cedar policies", []string{"--authz-config", policies}, false},
		{"audit to a file", []string{"--enable-audit"}, false},
		{"metrics", []string{"--otel-enable-prometheus-metrics-path"}, false},
	}, nil
}

// stages measures the optional stages of the gateway: all on, beside a reverse proxy before
// the same server, and each alone, beside a workload without them.
func (b *bench) stages(ctx context.Context) ([]result, error) {
	issuer, token, err := newIssuer(nil)
	if err != nil {
		return nil, err
	}
	defer issuer.Close()
	optional, err := b.optionalStages(issuer.URL)
	if err != nil {
		return nil, err
	}
	all := stage{name: "all", token: true}
	for _, s := range optional {
		all.flags = append(all.flags, s.flags...)
	}
	var results []result
	for _, side := range []struct {
		name, flag string
		open       era
	}{{"session", "-json", open}, {"stateless", "-stateless", openModern}} {
		some, err := b.stagesOf(ctx, side.name, side.flag, side.open, token, all, optional)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		results = append(results, some...)
	}
	return results, nil
}

// stagesOf measures them for one era of the client and the server.
func (b *bench) stagesOf(ctx context.Context, name, flag string, open era, token string, all stage, optional []stage) ([]result, error) {
	address, end, err := daemon(ctx, b.probe, flag, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	proxy, endProxy, err := daemon(ctx, self, "reverse-proxy", "http://"+address)
	if err != nil {
		return nil, err
	}
	defer endProxy()
	ways := []way{}
	for i, s := range append([]stage{all, {name: "none"}}, optional...) {
		w := way{open: open}
		if s.token {
			w.token = token
		}
		args := append([]string{"run", "http://" + address + "/mcp", "--name", fmt.Sprintf("stages-%d", i)}, s.flags...)
		if w.url, err = b.thv(ctx, args...); err != nil {
			return nil, err
		}
		ways = append(ways, w)
	}
	p50, rate, err := b.beside(ctx, ways[0], way{url: "http://" + proxy + "/mcp", open: open})
	if err != nil {
		return nil, err
	}
	p50.Name, rate.Name = "all stages, 1 client, p50: "+name, "all stages, calls per second, 32 clients: "+name
	results := []result{atMost(p50, 1.5, "at most 1.5x of ReverseProxy"), atLeast(rate, 0.7, "at least 0.7x of ReverseProxy")}
	times := make([][]float64, len(ways))
	for range turns {
		for i, w := range ways {
			v, err := b.latency(ctx, w)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], v)
		}
	}
	for i, s := range optional {
		results = append(results, difference("a call with one stage, "+s.name+": "+name, "µs", median(times[2+i]), median(times[1])))
	}
	results = append(results, difference("a call with all stages: "+name, "µs", median(times[0]), median(times[1])))
	if _, err := b.thv(ctx, "rm", "--all"); err != nil {
		return nil, err
	}
	return results, nil
}
