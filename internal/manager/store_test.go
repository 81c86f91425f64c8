package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func testStore(t *testing.T) *Store {
	t.Helper()
	return OpenStore(t.TempDir(), t.TempDir())
}

func remoteSpec(name string) *workload.Spec {
	return &workload.Spec{
		Schema: workload.Schema, Name: name, Group: DefaultGroup,
		Source:    workload.Source{Kind: "remote", Ref: "http://127.0.0.1:1/mcp"},
		Remote:    &workload.Remote{URL: "http://127.0.0.1:1/mcp"},
		Transport: workload.StreamableHTTP,
		Proxy:     workload.Proxy{Host: "127.0.0.1", Port: 20001, Mode: "streamable-http"},
	}
}

func TestWhatIsStoredIsReadBack(t *testing.T) {
	s := testStore(t)
	want := remoteSpec("a")
	want.Proxy.SessionTTL = 90e9
	if err := s.Create(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOneOfManyCreatorsOfANameWins(t *testing.T) {
	s := testStore(t)
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = s.Create(remoteSpec("same")) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ErrExists):
			t.Errorf("a loser received %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d creators of one name won", won)
	}
}

func TestADirectoryLeftByACrashIsTakenOver(t *testing.T) {
	s := testStore(t)
	if err := os.MkdirAll(s.Dir("a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.SetLast("a", workload.Running, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(remoteSpec("a")); err != nil {
		t.Fatal(err)
	}
	if last := s.Last("a"); last.State != "" {
		t.Errorf("a new workload has run before: %+v", last)
	}
}

func TestADamagedSpecIsAnErrorThatNamesTheFile(t *testing.T) {
	s := testStore(t)
	if err := s.Create(remoteSpec("a")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir("a"), "spec.json")
	for _, content := range []string{"", "{", `{"schema":"x","surprise":1}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get("a"); err == nil || !contains(err.Error(), path) {
			t.Errorf("%q: got %v, want an error that names %s", content, err, path)
		}
	}
}

func TestPortsAreDerivedRememberedAndNeverShared(t *testing.T) {
	s := testStore(t)
	first := map[string]int{}
	seen := map[int]string{}
	for i := range 300 {
		name := fmt.Sprintf("w%d", i)
		p, err := s.Port(name, anyPort)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[p]; taken {
			t.Fatalf("%s and %s share port %d", name, other, p)
		}
		if p < firstPort || p >= firstPort+portCount {
			t.Fatalf("port %d is out of range", p)
		}
		seen[p], first[name] = name, p
	}
	for name, want := range first {
		if got, _ := s.Port(name, anyPort); got != want {
			t.Errorf("port of %s changed from %d to %d", name, want, got)
		}
	}
	// Another machine's store derives the same port for the same name.
	if p, _ := testStore(t).Port("w0", anyPort); p != first["w0"] {
		t.Errorf("a fresh store gave w0 port %d, not %d", p, first["w0"])
	}
}

func anyPort(int) bool { return true }

func TestATakenPortIsPassedOverOnceAndThenNeverMoves(t *testing.T) {
	derived, err := testStore(t).Port("w", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	s := testStore(t)
	got, err := s.Port("w", func(port int) bool { return port != derived })
	if want := firstPort + (derived-firstPort+1)%portCount; err != nil || got != want {
		t.Errorf("port %d (%v), want the next one, %d", got, err, want)
	}
	for what, free := range map[string]func(int) bool{"the derived one is free again": anyPort, "it is taken itself": func(int) bool { return false }} {
		if again, err := s.Port("w", free); err != nil || again != got {
			t.Errorf("%s: it moved from %d to %d (%v)", what, got, again, err)
		}
	}
	if p, err := s.Port("v", func(int) bool { return false }); err == nil {
		t.Errorf("none is free, and it is %d", p)
	}
}

func TestAChosenPortIsGivenToNoOtherAndForgottenWithItsWorkload(t *testing.T) {
	derived, err := testStore(t).Port("b", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	s := testStore(t)
	spec := remoteSpec("a")
	spec.Proxy.Port = derived // by chance
	if err := s.Create(spec); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Port("b", anyPort); err != nil || p == derived {
		t.Errorf("another workload got the chosen port %d (%v)", p, err)
	}
	if err := s.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Port("a", anyPort); err != nil || p == derived {
		t.Errorf("the chosen port %d is remembered (%v)", p, err)
	}
}

func TestConcurrentGroupsLoseNothing(t *testing.T) {
	s := testStore(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := s.CreateGroup(fmt.Sprintf("g%02d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	groups, err := s.Groups()
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 21 { // and default
		t.Errorf("got groups %v", groups)
	}
	if err := s.CreateGroup("g00"); !errors.Is(err, ErrGroupExists) {
		t.Errorf("creating a group twice: %v", err)
	}
	if err := s.RemoveGroup("nope"); !errors.Is(err, ErrGroupNotFound) {
		t.Errorf("removing an unknown group: %v", err)
	}
	if err := s.RemoveGroup(DefaultGroup); err == nil {
		t.Error("the default group was removed")
	}
}
