package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// openTest opens a store whose password is the given one; "" is none.
func openTest(dir, password string) *Store {
	cfg := Config{Dir: dir}
	if password != "" {
		cfg.Kind = Encrypted
		cfg.Password = func(_ context.Context, q Question) (string, error) {
			if q.Wrong > 0 {
				return "", fmt.Errorf("%w: the one of this test", ErrPassword)
			}
			return password, nil
		}
	}
	s := Open(cfg)
	s.unlocker.kdf.Time, s.unlocker.kdf.MemoryKiB = 1, 1<<10
	return s
}

func set(t *testing.T, s *Store, values map[string]string) {
	t.Helper()
	for key, value := range values {
		if err := s.Set(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
}

func all(t *testing.T, s *Store) map[string]string {
	t.Helper()
	keys, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, key := range keys {
		if values[key], err = s.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

var sample = map[string]string{"user/github": "hunter2", "workload/w/A": "ä\n", "oauth/0a": strings.Repeat("x", 70_000)}

func TestStore_KeepsValuesForItsUserOnly(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "correct horse"} {
		dir := filepath.Join(t.TempDir(), "s")
		s := openTest(dir, password)
		set(t, s, sample)
		for _, reader := range []*Store{s, openTest(dir, password)} {
			if diff := cmp.Diff(sample, all(t, reader)); diff != "" {
				t.Errorf("password %q: %s", password, diff)
			}
		}
		for _, path := range []string{dir, s.Path()} {
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
		if err := s.Delete(t.Context(), "user/github"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "user/github"); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("after Delete: %v", err)
		}
		keys, err := s.List(t.Context(), "workload/")
		if diff := cmp.Diff([]string{"workload/w/A"}, keys); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		content, err := os.ReadFile(s.Path())
		if err != nil || password != "" && (bytes.Contains(content, []byte(strings.Repeat("x", 12))) || bytes.Contains(content, []byte("workload"))) {
			t.Errorf("the file shows its content: %v", err)
		}
	}
}

func TestStore_RejectsKeysAndValues(t *testing.T) {
	t.Parallel()
	s := openTest(t.TempDir(), "")
	for key, value := range map[string]string{"github": "x", "user/../x": "x", "user/a": "", "user/b": "\xff", "user/c": strings.Repeat("x", secret.MaxValue+1)} {
		if s.Set(t.Context(), key, value) == nil {
			t.Errorf("%s is accepted", key)
		}
	}
	if _, err := os.Stat(s.Path()); err == nil {
		t.Error("a file was written")
	}
}

// Deleting what is not there needs no password, and creates no file.
func TestStore_ForgetWithoutAFile(t *testing.T) {
	t.Parallel()
	s := Open(Config{Dir: t.TempDir(), Kind: Encrypted})
	if err := s.Forget(t.Context(), "w"); err != nil {
		t.Error(err)
	}
	if err := s.Set(t.Context(), "user/a", "x"); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("without a password: %v", err)
	}
}

func TestPutAll_ReplacesAWorkloadsSecrets(t *testing.T) {
	t.Parallel()
	s := openTest(t.TempDir(), "")
	set(t, s, map[string]string{"workload/w/OLD": "1", "workload/w2/A": "2"})
	if err := s.PutAll(t.Context(), "w", map[string]string{"NEW": "3"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"workload/w/NEW": "3", "workload/w2/A": "2"}, all(t, s)); diff != "" {
		t.Error(diff)
	}
	if err := s.Forget(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"workload/w2/A": "2"}, all(t, s)); diff != "" {
		t.Error(diff)
	}
}

// Each file that cannot be used is one sentence, stays as it was, and quotes nothing.
func TestStore_BadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	set(t, openTest(dir, "right"), map[string]string{"user/a": "hunter2"})
	sealed, err := os.ReadFile(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(f map[string]any)) string {
		var f map[string]any
		if err := json.Unmarshal(sealed, &f); err != nil {
			t.Fatal(err)
		}
		change(f)
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	header := func(f map[string]any) map[string]any { return f["header"].(map[string]any) }
	flip := strings.Replace(string(sealed), `"data":"`, `"data":"AAAA`, 1)
	for name, c := range map[string]struct{ content, password, want string }{
		"another password":     {string(sealed), "wrong", "the password is wrong"},
		"cut short":            {string(sealed[:len(sealed)/2]), "right", "it is cut short"},
		"empty":                {"", "right", "it is cut short"},
		"changed data":         {flip, "right", "does not match its seal"},
		"changed header":       {strings.Replace(string(sealed), `"header":{`, `"header":{ `, 1), "right", "does not match its seal"},
		"no data":              {edit(func(f map[string]any) { delete(f, "data") }), "right", "does not match its seal"},
		"no header":            {edit(func(f map[string]any) { delete(f, "header") }), "right", "its header is missing"},
		"another cipher":       {edit(func(f map[string]any) { header(f)["cipher"] = "rot13" }), "right", "header is damaged, or of another version"},
		"expensive parameters": {edit(func(f map[string]any) { header(f)["kdf"].(map[string]any)["memoryKiB"] = 1 << 30 }), "right", "key derivation"},
		"a newer version":      {edit(func(f map[string]any) { f["version"] = 2 }), "right", "it is of version 2, and this version of thv reads 1"},
		"not a secrets file":   {"hunter2", "right", "not a secrets file"},
		"plain and sealed":     {edit(func(f map[string]any) { f["values"] = map[string]string{"user/a": "x"} }), "right", "plain and encrypted"},
		"two contents":         {string(sealed) + string(sealed), "right", "something follows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openTest(dir, c.password)
			if err := os.WriteFile(s.Path(), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, getErr := s.Get(t.Context(), "user/a")
			for _, err := range []error{getErr, s.Set(t.Context(), "user/b", "x"), s.Protect(t.Context(), Plain)} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error()+s.Path(), s.Path()) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v; want %s", err, c.want)
				}
			}
			if after, err := os.ReadFile(s.Path()); err != nil || string(after) != c.content {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// The key of an open store opens it for a process without the password.
func TestStore_OpensByItsKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(dir, "right")
	set(t, s, sample)
	key, err := s.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := Open(Config{Dir: dir, Key: key})
	if err := by.Set(t.Context(), "user/new", "x"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), "user/new"); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Open(Config{Dir: dir}).Get(t.Context(), "user/new"); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("without the key: %v", err)
	}
	if plain, err := openTest(t.TempDir(), "").Key(t.Context()); plain != nil || err != nil {
		t.Errorf("of a plain file: %v, %v", plain, err)
	}
}

// A password that was typed wrong is requested again, and never remembered.
func TestStore_RequestsThePasswordAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	set(t, openTest(dir, "right"), sample)
	var questions []Question
	s := Open(Config{Dir: dir, Password: func(_ context.Context, q Question) (string, error) {
		questions = append(questions, q)
		return []string{"wrong", "right", "not used"}[q.Wrong], nil
	}})
	for range 3 {
		if _, err := s.Get(t.Context(), "user/github"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]Question{{File: s.Path()}, {File: s.Path(), Wrong: 1}}, questions); diff != "" {
		t.Error(diff)
	}
}

// memoryKeys is a keyring.
type memoryKeys struct {
	mu    sync.Mutex
	keys  map[string][]byte
	fault error
	reads int
}

func (m *memoryKeys) Get(_ context.Context, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fault != nil {
		return nil, m.fault
	}
	if key := m.keys[id]; key != nil {
		return key, nil
	}
	return nil, secret.ErrNotFound
}

func (m *memoryKeys) Set(_ context.Context, id string, key []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == nil {
		m.keys[id] = key
	}
	return m.fault
}

func (m *memoryKeys) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, id)
	return m.fault
}

// From every kind to every kind nothing is lost, and the keyring holds one key at most.
func TestProtect_LosesNothing(t *testing.T) {
	t.Parallel()
	keyring := &memoryKeys{keys: map[string][]byte{}}
	s := openTest(t.TempDir(), "right")
	s.cfg.Kind, s.cfg.Keys = Plain, keyring
	set(t, s, sample)
	for _, kind := range []Kind{Encrypted, Encrypted, Keyring, Keyring, Plain, Keyring, Encrypted, Plain, Plain} {
		if err := s.Protect(t.Context(), kind); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if got, err := s.Kind(); got != kind || err != nil {
			t.Errorf("it is %s, not %s: %v", got, kind, err)
		}
		other := openTest(s.cfg.Dir, "right")
		other.cfg.Keys = keyring
		if diff := cmp.Diff(sample, all(t, other)); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
		if want := map[Kind]int{Keyring: 1}[kind]; len(keyring.keys) != want {
			t.Errorf("%s: %d keys in the keyring", kind, len(keyring.keys))
		}
	}
}

func TestKeyring_Faults(t *testing.T) {
	t.Parallel()
	keyring := &memoryKeys{keys: map[string][]byte{}}
	open := func(dir string) *Store { return Open(Config{Dir: dir, Kind: Keyring, Keys: keyring}) }
	s := open(t.TempDir())
	set(t, s, sample)
	var wait sync.WaitGroup
	keyring.reads = 0
	fresh := open(s.cfg.Dir)
	for range 20 {
		wait.Go(func() {
			if _, err := fresh.Get(t.Context(), "user/github"); err != nil {
				t.Error(err)
			}
		})
	}
	if wait.Wait(); keyring.reads != 1 {
		t.Errorf("20 readers read the keyring %d times", keyring.reads)
	}
	keyring.fault = errors.New("the keyring is closed")
	for _, s := range []*Store{open(s.cfg.Dir), open(t.TempDir())} {
		if err := s.Set(t.Context(), "user/a", "x"); !errors.Is(err, secret.ErrLocked) || !strings.Contains(err.Error(), "the keyring is closed") {
			t.Error(err)
		}
	}
	keyring.fault = nil
	clear(keyring.keys)
	if _, err := open(s.cfg.Dir).Get(t.Context(), "user/github"); !errors.Is(err, secret.ErrLocked) || !strings.Contains(err.Error(), "does not have the key") {
		t.Error(err)
	}
}

func TestMigrate_MovesTheWorkloadsFiles(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "right"} {
		dir := t.TempDir()
		for name, content := range map[string]string{
			"one.json": `{"A":"1","oidc-client-secret":"s"}`, "store.json": `{"B":"2"}`, "empty.json": `{}`, "bad.json": `{"A":"hunter2`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := openTest(dir, password)
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				if got, err := s.Get(t.Context(), "workload/one/A"); got != "1" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		wait.Wait()
		want := map[string]string{"workload/one/A": "1", "workload/one/oidc-client-secret": "s", "workload/store/B": "2"}
		if diff := cmp.Diff(want, all(t, s)); diff != "" {
			t.Error(diff)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if diff := cmp.Diff([]string{filepath.Join(dir, "bad.json")}, left); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		// The damaged one is an error for its workload only, and is not quoted.
		if _, err := s.Get(t.Context(), "workload/bad/A"); err == nil || errors.Is(err, secret.ErrNotFound) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
		if err := s.Forget(t.Context(), "bad"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "workload/bad/A"); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

// The test binary runs itself as several writers.
const asWriter = "THV_TEST_SECRET_WRITER"

func TestMain(m *testing.M) {
	dir := os.Getenv(asWriter)
	if dir == "" {
		os.Exit(m.Run())
	}
	s := openTest(dir, os.Getenv("THV_TEST_SECRET_PASSWORD"))
	for i := range 20 {
		if err := s.Set(context.Background(), fmt.Sprintf("user/%s.%d", os.Args[1], i), "x"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

func TestStore_WrittenByProcesses(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "right"} {
		dir := t.TempDir()
		s := openTest(dir, password)
		set(t, s, map[string]string{"user/first": "x"})
		var wait sync.WaitGroup
		for i := range 4 {
			cmd := exec.CommandContext(t.Context(), os.Args[0], fmt.Sprint(i))
			cmd.Env = append(os.Environ(), asWriter+"="+dir, "THV_TEST_SECRET_PASSWORD="+password)
			wait.Go(func() {
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		for i := range 10 {
			set(t, s, map[string]string{fmt.Sprintf("user/mine.%d", i): "x"})
		}
		wait.Wait()
		if n := len(all(t, s)); n != 1+4*20+10 {
			t.Errorf("password %q: %d secrets", password, n)
		}
	}
}

// A lock is held by one process at a time, excludes no reader or writer, and ends with
// its holder.
func TestLock(t *testing.T) {
	t.Parallel()
	s := openTest(t.TempDir(), "")
	unlock, err := s.Lock(t.Context(), "oauth/a")
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, map[string]string{"oauth/a": "x"})
	other, err := s.Lock(t.Context(), "oauth/b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := openTest(s.cfg.Dir, "").Lock(ctx, "oauth/a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second holder: %v", err)
	}
	unlock()
	again, err := s.Lock(t.Context(), "oauth/a")
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := s.Lock(t.Context(), "../x"); err == nil {
		t.Error("a lock outside of the store")
	}
}

// A file of any bytes is read or refused, and what is read is written back the same.
func FuzzFile(f *testing.F) {
	h, key := passwordHeader(kdf{Name: "argon2id", Time: 1, MemoryKiB: 8, Threads: 1}, "right")
	for _, header := range []*header{nil, h} {
		content, err := encode(map[string]string{"user/a": "hunter2"}, header, key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte(`{"version":1,"header":{"cipher":"aes-256-gcm","keyring":"x","check":"AA=="},"data":"AAAA"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		parsed, head, err := parse(content)
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") {
				t.Error(err)
			}
			return
		}
		values := parsed.Values
		if head != nil {
			if values, err = parsed.open(key); err != nil {
				return
			}
		}
		again, err := encode(values, head, key)
		if err != nil {
			t.Fatal(err)
		}
		parsed, head, err = parse(again)
		if err != nil {
			t.Fatal(err)
		}
		got := parsed.Values
		if head != nil {
			if got, err = parsed.open(key); err != nil {
				t.Fatal(err)
			}
		}
		if !maps.Equal(got, values) {
			t.Errorf("%q became %q", values, got)
		}
	})
}
