// Bench measures Toolhaven beside a baseline, both in one run and by turns, so
// that a noisy machine disturbs them alike. What is printed, and written as
// JSON, are ratios first: they travel between machines, milliseconds do not.
//
//	bench -thv bin/thv -out bench/last.json
//
// A gateway costs what it adds to a bare [net/http/httputil.ReverseProxy] before
// the same server. A start costs what it adds to `docker run` of the same image,
// with the same request answered by hand.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "reverse-proxy" {
		fmt.Fprintln(os.Stderr, reverseProxy(os.Args[2]))
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "page" {
		fmt.Fprintln(os.Stderr, servePage(os.Args[2]))
		os.Exit(1)
	}
	thv := flag.String("thv", "bin/thv", "the program to measure")
	out := flag.String("out", "", "write the results as JSON to this `file`")
	only := flag.String("only", "", "measure only these, comma-separated: cpu, start, isolation, ignore, calls, stages, stdio, memory, sessions, tokens, credentials, renewal, auth-server, clients, replicas, operator, registry-sqlite, registry-postgres")
	quick := flag.Bool("quick", false, "a tenth of everything, to see that it works")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *thv, *out, *only, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// result is one measure beside its baseline.
type result struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Ours     float64 `json:"ours"`
	Baseline float64 `json:"baseline,omitempty"`
	// Value is compared with the target: a ratio, a difference, or Ours.
	Value  float64 `json:"value"`
	Of     string  `json:"of"` // "ratio", "difference", "itself"
	Target string  `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"`
}

func atMost(r result, limit float64, target string) result {
	met := r.Value <= limit
	r.Target, r.Met = target, &met
	return r
}

func atLeast(r result, limit float64, target string) result {
	met := r.Value >= limit
	r.Target, r.Met = target, &met
	return r
}

// reaching sets a target for our rate, where the value is a ratio.
func (r result) reaching(limit float64, target string) result {
	met := r.Ours >= limit
	r.Target, r.Met = target, &met
	return r
}

// limited sets a target for our time, where the value is a ratio.
func (r result) limited(limit float64, target string) result {
	met := r.Ours < limit
	r.Target, r.Met = target, &met
	return r
}

// under does the same where the baseline does less work than ours: if the baseline exceeds
// the limit, the machine was too busy.
func (r result) under(limit float64, target string) result {
	if r.Ours >= limit && r.Baseline >= limit {
		r.Target = target + "; the baseline is not: the machine was too busy"
		return r
	}
	return r.limited(limit, target)
}

func ratio(name, unit string, ours, baseline float64) result {
	return result{Name: name, Unit: unit, Ours: ours, Baseline: baseline, Value: ours / baseline, Of: "ratio"}
}

func difference(name, unit string, ours, baseline float64) result {
	return result{Name: name, Unit: unit, Ours: ours, Baseline: baseline, Value: ours - baseline, Of: "difference"}
}

func itself(name, unit string, ours float64) result {
	return result{Name: name, Unit: unit, Ours: ours, Value: ours, Of: "itself"}
}

func run(ctx context.Context, thvPath, out, only string, quick bool) error {
	b, err := newBench(thvPath, quick)
	if err != nil {
		return err
	}
	defer b.close()
	wanted := func(name string) bool {
		return only == "" || strings.Contains(","+only+",", ","+name+",")
	}
	var results []result
	for _, part := range []struct {
		name    string
		measure func(context.Context) ([]result, error)
	}{
		{"cpu", b.cpu}, {"start", b.start}, {"isolation", b.isolation}, {"ignore", b.ignore}, {"calls", b.calls}, {"stages", b.stages}, {"stdio", b.stdio}, {"memory", b.memory}, {"sessions", b.sessions}, {"tokens", b.tokens}, {"credentials", b.credentials}, {"renewal", b.renewal}, {"auth-server", b.authServer}, {"clients", b.clients}, {"replicas", b.replicas}, {"operator", b.operator},
		{"registry-sqlite", b.registrySQLite}, {"registry-postgres", b.registryPostgres},
	} {
		if !wanted(part.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", part.name)
		began := time.Now()
		some, err := part.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s took %.0f s\n", part.name, time.Since(began).Seconds())
		results = append(results, some...)
	}
	print(os.Stdout, results)
	if out == "" {
		return nil
	}
	report, err := json.MarshalIndent(map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "go": runtime.Version(), "cpus": runtime.NumCPU(),
		"quick": quick, "results": results,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(out), append(report, '\n'), 0o644)
}

func print(w *os.File, results []result) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "MEASURE\tOURS\tBASELINE\tVALUE\tTARGET\t")
	for _, r := range results {
		baseline, value, verdict := "-", fmt.Sprintf("%.1f %s", r.Value, r.Unit), ""
		if r.Of != "itself" {
			baseline = fmt.Sprintf("%.1f %s", r.Baseline, r.Unit)
		}
		switch r.Of {
		case "ratio":
			value = fmt.Sprintf("%.2fx", r.Value)
		case "difference":
			value = fmt.Sprintf("%+.1f %s", r.Value, r.Unit)
		}
		if r.Met != nil {
			verdict = map[bool]string{true: "met", false: "MISSED"}[*r.Met]
		}
		fmt.Fprintf(t, "%s\t%.1f %s\t%s\t%s\t%s\t%s\n", r.Name, r.Ours, r.Unit, baseline, value, r.Target, verdict)
	}
	t.Flush()
}
