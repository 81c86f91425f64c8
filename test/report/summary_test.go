package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func summarize(t *testing.T, lines ...string) (string, bool) {
	t.Helper()
	var out strings.Builder
	s := newSummary(&out)
	s.read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	passed := s.close()
	return out.String(), passed
}

func TestSummary_CountsInnermostTests(t *testing.T) {
	out, passed := summarize(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"run","Package":"p","Test":"A/one"}`,
		`{"Action":"pass","Package":"p","Test":"A/one"}`,
		`{"Action":"run","Package":"p","Test":"A/two"}`,
		`{"Action":"pass","Package":"p","Test":"A/two"}`,
		`{"Action":"pass","Package":"p","Test":"A"}`,
		`{"Action":"pass","Package":"p","Elapsed":1.5}`)
	if !passed || !strings.HasSuffix(out, "\n2 passed, 0 failed, 0 skipped\n") || !strings.Contains(out, "ok  \tp\t1.500s\n") {
		t.Errorf("passed %v:\n%s", passed, out)
	}
}

func TestSummary_PrintsOutputOfFailures(t *testing.T) {
	out, passed := summarize(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"a_test.go:1: the reason\n"}`,
		`{"Action":"fail","Package":"p","Test":"A"}`,
		`{"Action":"fail","Package":"p"}`)
	if passed || !strings.Contains(out, "the reason") || !strings.Contains(out, "0 passed, 1 failed") {
		t.Errorf("passed %v:\n%s", passed, out)
	}
}

// A timeout ends the process: no test of it ends.
func TestSummary_PrintsOutputOfTestsThatDidNotEnd(t *testing.T) {
	out, passed := summarize(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"panic: test timed out\n"}`,
		`{"Action":"run","Package":"q","Test":"B"}`,
		`{"Action":"output","Package":"q","Test":"B","Output":"of another package\n"}`,
		`{"Action":"fail","Package":"p"}`)
	if passed || !strings.Contains(out, "!! A did not end\npanic: test timed out") || strings.Contains(out, "another package") {
		t.Errorf("passed %v:\n%s", passed, out)
	}
}

func TestSummary_CountsBuildFailure(t *testing.T) {
	out, passed := summarize(t,
		`{"Action":"run","Package":"q","Test":"B"}`,
		`{"Action":"pass","Package":"q","Test":"B"}`,
		`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: undefined: x\n"}`,
		`{"Action":"fail","Package":"p"}`)
	if passed || !strings.Contains(out, "undefined: x") || !strings.Contains(out, "1 passed, 1 failed") {
		t.Errorf("passed %v:\n%s", passed, out)
	}
}

func TestSummary_PrintsSkipsWithReason(t *testing.T) {
	out, passed := summarize(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"=== RUN   A\n"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:3: no podman here\n"}`,
		`{"Action":"skip","Package":"p","Test":"A"}`,
		`{"Action":"run","Package":"p","Test":"B"}`,
		`{"Action":"pass","Package":"p","Test":"B"}`,
		`{"Action":"pass","Package":"p"}`)
	if !passed || !strings.Contains(out, "!! p A: a_test.go:3: no podman here") || !strings.Contains(out, "1 passed, 0 failed, 1 skipped") {
		t.Errorf("passed %v:\n%s", passed, out)
	}
}

func TestSummary_FailsWithoutTests(t *testing.T) {
	if out, passed := summarize(t, `{"Action":"pass","Package":"p"}`); passed {
		t.Errorf("passed:\n%s", out)
	}
}

func TestSummary_PrintsTenSlowest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times")
	if err := os.WriteFile(file, []byte("12\tset-up: docker\n0.5\tset-up: dex\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := newSummary(&out)
	if err := s.readTimes(file); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		s.add(event{Action: "pass", Package: fmt.Sprintf("p%d.", i), Elapsed: float64(i)})
	}
	s.close()
	for _, want := range []string{"    12.0  set-up: docker\n     0.5  set-up: dex\n", "    11.0  p11.\n", "     2.0  p2.\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "  p1.\n") {
		t.Errorf("more than ten packages are listed:\n%s", out.String())
	}
}

func TestSummary_RejectsMalformedTimes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times")
	if err := os.WriteFile(file, []byte("soon\tset-up\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := newSummary(io.Discard).readTimes(file); err == nil {
		t.Error("a line without seconds was accepted")
	}
	if err := newSummary(io.Discard).readTimes(file + ".missing"); err != nil {
		t.Errorf("a missing file: %v", err)
	}
}

func TestParseStages(t *testing.T) {
	flags, rest := splitFlags([]string{"-times", "file", "--", "-race", "p", "--run", "program", "-x"})
	if !slices.Equal(flags, []string{"-times", "file"}) {
		t.Errorf("flags %q", flags)
	}
	got := parseStages(rest)
	if len(got) != 2 || got[0].String() != "go test -race p" || got[1].String() != "program -x" || !got[1].program {
		t.Errorf("stages %v", got)
	}
}

func TestStageRun_Program(t *testing.T) {
	for name, c := range map[string]struct {
		stage  stage
		passes bool
	}{
		"passes":            {stage{args: []string{"true"}, program: true}, true},
		"with a variable":   {stage{args: []string{"ANSWER=42", "sh", "-c", `test "$ANSWER" = 42`}, program: true}, true},
		"without a program": {stage{program: true}, false},
		"fails":             {stage{args: []string{"false"}, program: true}, false},
	} {
		if _, err := c.stage.run(t.Context(), newSummary(io.Discard)); (err == nil) != c.passes {
			t.Errorf("%s: %v", name, err)
		}
	}
	loop := stage{args: []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}, program: true}
	if used, err := loop.run(t.Context(), newSummary(io.Discard)); err != nil || used == 0 {
		t.Errorf("a loop used %v of a processor, %v", used, err)
	}
}
