package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// tokens measures the validation of access tokens beside the bare check of their
// signature: the benchmarks of internal/auth, which reach what this program does
// not.
func (b *bench) tokens(ctx context.Context) ([]result, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark(Seen|New)Token$",
		"-count", fmt.Sprint(b.times(5)), "-benchtime", fmt.Sprintf("%dms", b.times(400)), "./internal/auth")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	measured := parseBenchmarks(string(out))
	var results []result
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		seen, fresh, bare := measured["SeenToken/"+alg+" ns/op"], measured["NewToken/"+alg+" new-ns"], measured["NewToken/"+alg+" bare-ns"]
		if len(seen) == 0 || len(fresh) == 0 || len(fresh) != len(bare) {
			return nil, fmt.Errorf("go test -bench does not say how long %s takes:\n%s", alg, out)
		}
		// Each was measured by turns with the bare check beside it.
		rates := make([]float64, len(fresh))
		for i := range fresh {
			rates[i] = bare[i] / fresh[i]
		}
		check := median(bare) / 1e3
		rate := ratio(alg+": new tokens per second beside bare signature checks", "/s", 1e9/median(fresh), 1e9/median(bare))
		rate.Value = median(rates)
		results = append(results,
			ratio(alg+": a token seen before, beside a bare signature check", "µs", median(seen)/1e3, check).limited(3, "under 3 µs"),
			atLeast(rate, 0.9, "at least 0.9x"))
	}
	return results, nil
}

var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

// parseBenchmarks reads what go test -bench prints: the values of each benchmark
// and unit.
func parseBenchmarks(text string) map[string][]float64 {
	out := map[string][]float64{}
	for _, line := range benchmarkLine.FindAllStringSubmatch(text, -1) {
		fields := strings.Fields(line[2])
		for i := 0; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				key := line[1] + " " + fields[i+1]
				out[key] = append(out[key], v)
			}
		}
	}
	return out
}
