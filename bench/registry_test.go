package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAWalkSeesAllVersionsOrFails(t *testing.T) {
	server := httptest.NewServer(upstream(50))
	defer server.Close()
	w, ask := &walk{list: server.URL, want: 150}, newCaller("")
	if err := together(t.Context(), ask, w, &walk{list: server.URL, want: 150}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "30", "60", "90", "120"}, w.cursors); diff != "" {
		t.Error(diff)
	}
	for _, want := range []int{149, 151} {
		if err := together(t.Context(), ask, &walk{list: server.URL, want: want}); err == nil {
			t.Errorf("150 versions pass for %d", want)
		}
	}
}

// An answer that waits because the one before is slow counts its waiting.
func TestALoadMeasuresFromWhenAQuestionWasDue(t *testing.T) {
	turn := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		turn <- struct{}{}
		time.Sleep(10 * time.Millisecond)
		<-turn
		_, _ = w.Write([]byte("right"))
	}))
	defer server.Close()
	s := stream{rate: 200, holds: "right", at: func(int) string { return server.URL }} // it can do 100
	q, err := s.load(t.Context(), newCaller(""), 0.5)
	if err != nil {
		t.Fatal(err)
	}
	if q.p99 < 300 || q.p50 < 150 { // the last of 100 is due after 0.5 s, and there after 1 s
		t.Errorf("p50 %.0f ms, p99 %.0f ms, although half of the questions wait", q.p50, q.p99)
	}
	s.holds = "wrong"
	if _, err := s.load(t.Context(), newCaller(""), 0.1); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("an answer without what it must hold: %v", err)
	}
}

func TestParseBenchmarks(t *testing.T) {
	const text = `goos: linux
BenchmarkSeenToken/RS256-2         	  400000	      1290 ns/op	     129 B/op	       2 allocs/op
BenchmarkSeenToken/RS256-2         	  400000	      1300 ns/op	     129 B/op	       2 allocs/op
BenchmarkNewToken/EdDSA            	      20	     85000 bare-ns	      91.5 %-of-bare-rate	     92000 new-ns
PASS`
	want := map[string][]float64{
		"SeenToken/RS256 ns/op": {1290, 1300}, "SeenToken/RS256 B/op": {129, 129}, "SeenToken/RS256 allocs/op": {2, 2},
		"NewToken/EdDSA bare-ns": {85000}, "NewToken/EdDSA %-of-bare-rate": {91.5}, "NewToken/EdDSA new-ns": {92000},
	}
	if diff := cmp.Diff(want, parseBenchmarks(text)); diff != "" {
		t.Error(diff)
	}
}

func TestATargetThatTheBaselineMissesShowsNothing(t *testing.T) {
	for _, test := range []struct {
		ours, baseline float64
		want           string
	}{{9, 1, "met"}, {9, 20, "met"}, {20, 1, "missed"}, {20, 15, "nothing"}} {
		got := "nothing"
		if r := ratio("", "ms", test.ours, test.baseline).under(10, ""); r.Met != nil {
			got = map[bool]string{true: "met", false: "missed"}[*r.Met]
		}
		if got != test.want {
			t.Errorf("%v ms beside %v ms: %s; want %s", test.ours, test.baseline, got, test.want)
		}
	}
}
