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
