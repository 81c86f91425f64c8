package manager

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolhaven/toolhaven/internal/seal"
)

func TestAWorkloadsKeyIsItsOwnAndStaysUntilItIsRemoved(t *testing.T) {
	s := testStore(t)
	for _, name := range []string{"a", "b"} {
		if err := s.Create(remoteSpec(name)); err != nil {
			t.Fatal(err)
		}
	}
	key := func(name string) []byte {
		t.Helper()
		k, err := s.Key(name)
		if err != nil || len(k) != seal.KeySize {
			t.Fatalf("%d bytes, %v", len(k), err)
		}
		return k
	}
	first := key("a")
	if !bytes.Equal(key("a"), first) {
		t.Error("it changes")
	}
	if bytes.Equal(key("b"), first) {
		t.Error("another workload has the same")
	}
	path := filepath.Join(s.Dir("a"), "gateway.key")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := key("a")
	if bytes.Equal(second, first) || !bytes.Equal(key("a"), second) {
		t.Error("a damaged one is not replaced")
	}
	if err := s.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is there after the workload is removed")
	}
	if err := s.Create(remoteSpec("a")); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(key("a"), second) {
		t.Error("another workload of the name has the same")
	}
}
