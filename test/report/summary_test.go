package main

import (
	"strings"
	"testing"
)

func sumUp(t *testing.T, lines ...string) (string, bool) {
	t.Helper()
	var out strings.Builder
	s := newSummary(&out)
	s.read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	well := s.close()
	return out.String(), well
}

func TestTheClosingLineCountsInnermostTests(t *testing.T) {
	out, well := sumUp(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"run","Package":"p","Test":"A/one"}`,
		`{"Action":"pass","Package":"p","Test":"A/one"}`,
		`{"Action":"run","Package":"p","Test":"A/two"}`,
		`{"Action":"pass","Package":"p","Test":"A/two"}`,
		`{"Action":"pass","Package":"p","Test":"A"}`,
		`{"Action":"pass","Package":"p","Elapsed":1.5}`)
	if !well || !strings.HasSuffix(out, "\n2 passed, 0 failed, 0 skipped\n") || !strings.Contains(out, "ok  \tp\t1.500s\n") {
		t.Errorf("well %v:\n%s", well, out)
	}
}

func TestAFailureIsShownWithItsOutput(t *testing.T) {
	out, well := sumUp(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"a_test.go:1: the reason\n"}`,
		`{"Action":"fail","Package":"p","Test":"A"}`,
		`{"Action":"fail","Package":"p"}`)
	if well || !strings.Contains(out, "the reason") || !strings.Contains(out, "0 passed, 1 failed") {
		t.Errorf("well %v:\n%s", well, out)
	}
}

func TestAPackageThatDoesNotBuildIsAFailure(t *testing.T) {
	out, well := sumUp(t,
		`{"Action":"run","Package":"q","Test":"B"}`,
		`{"Action":"pass","Package":"q","Test":"B"}`,
		`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: undefined: x\n"}`,
		`{"Action":"fail","Package":"p"}`)
	if well || !strings.Contains(out, "undefined: x") || !strings.Contains(out, "1 passed, 1 failed") {
		t.Errorf("well %v:\n%s", well, out)
	}
}

func TestASkipIsLoudAndSaysWhy(t *testing.T) {
	out, well := sumUp(t,
		`{"Action":"run","Package":"p","Test":"A"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"=== RUN   A\n"}`,
		`{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:3: no podman here\n"}`,
		`{"Action":"skip","Package":"p","Test":"A"}`,
		`{"Action":"run","Package":"p","Test":"B"}`,
		`{"Action":"pass","Package":"p","Test":"B"}`,
		`{"Action":"pass","Package":"p"}`)
	if !well || !strings.Contains(out, "!! p A: a_test.go:3: no podman here") || !strings.Contains(out, "1 passed, 0 failed, 1 skipped") {
		t.Errorf("well %v:\n%s", well, out)
	}
}

func TestARunThatTestedNothingIsNotWell(t *testing.T) {
	if out, well := sumUp(t, `{"Action":"pass","Package":"p"}`); well {
		t.Errorf("well:\n%s", out)
	}
}

// aStage is a stage of two packages in which q.B/x fails, saying output.
func aStage(t *testing.T, output string) (*summary, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	s := newSummary(&out)
	s.read(strings.NewReader(strings.Join([]string{
		`{"Action":"pass","Package":"p","Test":"A"}`,
		`{"Action":"pass","Package":"p"}`,
		`{"Action":"run","Package":"q","Test":"B"}`,
		`{"Action":"run","Package":"q","Test":"B/x"}`,
		`{"Action":"output","Package":"q","Test":"B/x","Output":"` + output + `\n"}`,
		`{"Action":"fail","Package":"q","Test":"B/x"}`,
		`{"Action":"fail","Package":"q","Test":"B"}`,
		`{"Action":"fail","Package":"q"}`,
	}, "\n")))
	return s, &out
}

func TestWhatFailedIsRunOnceMoreAndNamed(t *testing.T) {
	s, out := aStage(t, "b_test.go:1: the reason")
	var ran []string
	well := s.again([]string{"-race", "-timeout=1m", "p", "q"}, func(args []string, sum *summary) error {
		ran = append(ran, strings.Join(args, " "))
		sum.add(event{Action: "pass", Package: "q", Test: "B"})
		return nil
	})
	if !well || !s.close() || len(ran) != 1 || ran[0] != "-race -timeout=1m -count=1 -run=^B$ q" {
		t.Errorf("well %v, ran %q", well, ran)
	}
	for _, want := range []string{"the reason", "1 TESTS FAILED, AND PASSED WHEN RUN AGAIN", "!! q B\n", "2 passed, 0 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
}

func TestWhatFailsAgainHasFailed(t *testing.T) {
	s, out := aStage(t, "b_test.go:1: the reason")
	well := s.again([]string{"q"}, func(args []string, sum *summary) error {
		sum.add(event{Action: "fail", Package: "q", Test: "B"})
		return nil
	})
	if well || s.close() || !strings.Contains(out.String(), "1 passed, 1 failed") {
		t.Errorf("well %v:\n%s", well, out)
	}
}

func TestWhatIsNoChanceIsNotRunAgain(t *testing.T) {
	for name, prepare := range map[string]func() *summary{
		"a data race": func() *summary { s, _ := aStage(t, "WARNING: DATA RACE"); return s },
		"a panic":     func() *summary { s, _ := aStage(t, "panic: oh"); return s },
		"a package without a failing test": func() *summary {
			s, _ := aStage(t, "b")
			s.add(event{Action: "fail", Package: "r"})
			return s
		},
		"four tests": func() *summary {
			s, _ := aStage(t, "b")
			for _, test := range []string{"C", "D", "E"} {
				s.add(event{Action: "fail", Package: "q", Test: test})
			}
			return s
		},
	} {
		s := prepare()
		if s.again([]string{"q"}, func([]string, *summary) error { t.Errorf("%s: run again", name); return nil }) || s.close() {
			t.Errorf("%s: well", name)
		}
	}
}
