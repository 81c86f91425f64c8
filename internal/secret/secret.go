// Package secret keeps the values of secrets; everything else holds references
// to them. Today there is one store: files in the state directory that only the
// user can read, one for each workload. That protects against other users and
// against a configuration that is shown, exported or committed; it does not
// protect against a program that can read the user's files.
package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// Store keeps secrets of workloads. It holds nothing in memory.
type Store struct{ dir string }

// Open uses the directory, which is made when first needed.
func Open(dir string) *Store { return &Store{dir: dir} }

// ErrNotFound: there is no such secret.
var ErrNotFound = errors.New("no such secret")

// A reference is workload/NAME/KEY.
var refPattern = regexp.MustCompile(`^workload/([a-z0-9][a-z0-9._-]{0,62})/([A-Za-z0-9_.-]{1,255})$`)

// Ref is the reference of a workload's secret.
func Ref(workload, key string) string { return "workload/" + workload + "/" + key }

func (s *Store) parse(ref string) (file, key string, err error) {
	m := refPattern.FindStringSubmatch(ref)
	if m == nil || strings.Contains(m[1], "..") {
		return "", "", fmt.Errorf("%q is not a reference to a secret", ref)
	}
	return s.file(m[1]), m[2], nil
}

func (s *Store) file(workload string) string { return filepath.Join(s.dir, workload+".json") }

// Put stores values under their keys for a workload, beside those it has.
func (s *Store) Put(workload string, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	file := s.file(workload)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("store secrets: %w", err)
	}
	lock := flock.New(filepath.Join(s.dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("store secrets: %w", err)
	}
	defer lock.Unlock()
	all, err := read(file)
	if err != nil {
		return err
	}
	for k, v := range values {
		if _, _, err := s.parse(Ref(workload, k)); err != nil {
			return err
		}
		all[k] = v
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return settings.WriteAtomic(file, b, 0o600)
}

// Get is the value behind a reference. ErrNotFound when there is none.
func (s *Store) Get(ref string) (string, error) {
	file, key, err := s.parse(ref)
	if err != nil {
		return "", err
	}
	all, err := read(file)
	if err != nil {
		return "", err
	}
	v, ok := all[key]
	if !ok {
		return "", fmt.Errorf("%w: %s", ErrNotFound, ref)
	}
	return v, nil
}

// Forget deletes all secrets of a workload.
func (s *Store) Forget(workload string) error {
	err := os.Remove(s.file(workload))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete secrets: %w", err)
	}
	return nil
}

func read(file string) (map[string]string, error) {
	all := map[string]string{}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		// The error could quote the content.
		return nil, fmt.Errorf("read secrets: %s is damaged", file)
	}
	return all, nil
}

// secretName marks names of variables whose values are secrets.
var secretName = regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH$|AUTHORIZATION$|COOKIE$|_KEY$|_PAT$|^PAT$|DSN$|CONNECTION_STRING)`)

// secretValue marks values by the beginnings that well-known issuers give theirs.
var secretValue = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|sk-|sk_live_|xox[abprs]-|AKIA|ASIA|AIza|eyJ[A-Za-z0-9_-]+\.eyJ|(?i:Bearer|Basic) |-----BEGIN [A-Z ]*PRIVATE KEY)`)

// Looks reports whether a variable looks as if its value were a secret.
func Looks(name, value string) bool {
	return secretName.MatchString(name) || secretValue.MatchString(value)
}
