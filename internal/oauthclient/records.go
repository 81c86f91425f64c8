package oauthclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Values is what a Store needs of the user's secrets store ([secret.Store]).
type Values interface {
	Get(ctx context.Context, key string) (string, error)
	Set(ctx context.Context, key, value string) error
	Delete(ctx context.Context, key string) error
}

// records are the sign-ins and registrations of a Store. A record is identified by its file
// in the index directory. The file states only that the record exists: its content is in the
// secrets store, under the key oauth/KIND/NAME. So a secrets store that is locked is opened
// only for a record that exists, and the file's time shows whether the record was replaced.
//
// Before version 2 the file held the record itself. Such a file is read, and moved into the
// secrets store when its sign-in is next used.
type records struct {
	dir    string
	values Values
}

const (
	storeVersion = 1 // of a record
	indexVersion = 2 // of a file in the index
)

// entry is the content of a file in the index.
type entry struct {
	Version int `json:"version"`
}

// The kinds of records.
const (
	kindLogin        = "logins"  // found by its resource
	kindGrant        = "grants"  // found by its key
	kindRegistration = "clients" // found by its issuer
)

// Reference returns the reference of a keyed sign-in in the secrets store.
func Reference(key string) string { return secret.OAuthPrefix + kindGrant + "/" + key }

// file is the file of a record. Names are digests: an identifier may be longer than a name
// can be.
func (d records) file(kind, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.dir, kind, hex.EncodeToString(sum[:16])+".json")
}

func (d records) signIn(key string) string          { return d.file(kindLogin, key) }
func (d records) registration(issuer string) string { return d.file(kindRegistration, issuer) }
func (d records) grant(key string) string           { return filepath.Join(d.dir, kindGrant, key+".json") }

// key is the key of a record in the secrets store.
func (d records) key(file string) string {
	kind := filepath.Base(filepath.Dir(file))
	return secret.OAuthPrefix + kind + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
}

// grantsFor returns the files of the keyed sign-ins for a target.
func (d records) grantsFor(ctx context.Context, target string) ([]string, error) {
	dir := filepath.Join(d.dir, kindGrant)
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the sign-ins: %w", err)
	}
	var files []string
	for _, f := range all {
		if key, ok := strings.CutSuffix(f.Name(), ".json"); !ok || !validKey.MatchString(key) {
			continue
		}
		file := filepath.Join(dir, f.Name())
		kept, err := d.load(ctx, file)
		if err != nil {
			return nil, err
		}
		if kept != nil && kept.Target == target {
			files = append(files, file)
		}
	}
	return files, nil
}

// key is a resource's identifier in one spelling.
func key(u *url.URL) string {
	k := netguard.Origin(u) + strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		k += "?" + u.RawQuery
	}
	return k
}

// find returns the sign-in of the most specific resource that covers the target, and
// its file; nil when there is none.
func (d records) find(ctx context.Context, target *url.URL) (string, *signIn, error) {
	k := key(target)
	least := len(netguard.Origin(target))
	for {
		file := d.signIn(k)
		kept, err := d.load(ctx, file)
		if err != nil {
			return "", nil, err
		}
		if kept != nil {
			resource, err := url.Parse(kept.Resource)
			if err != nil || !covers(resource, target) {
				return "", nil, damaged(file)
			}
			return file, kept, nil
		}
		if len(k) <= least {
			return "", nil, nil
		}
		if i := strings.LastIndexAny(k, "/?"); i >= least {
			k = k[:i]
		} else {
			return "", nil, nil
		}
	}
}

// dropRegistration deletes a registration that led to no sign-in: the server may have
// deleted it too, and reports that only to the browser.
func (d records) dropRegistration(ctx context.Context, issuer string, id identity) {
	if id.Own {
		_ = d.forget(ctx, d.registration(issuer)) // the next attempt uses it again
	}
}

// load returns the sign-in of a file; nil when there is none.
func (d records) load(ctx context.Context, file string) (*signIn, error) {
	kept := &signIn{}
	found, err := d.read(ctx, file, kept)
	if err != nil || !found {
		return nil, err
	}
	if kept.Version != storeVersion || kept.Resource == "" || kept.TokenEndpoint == "" || kept.AccessToken == "" {
		return nil, damaged(file)
	}
	return kept, nil
}

// read decodes a record into v.
func (d records) read(ctx context.Context, file string, v any) (found bool, err error) {
	index, err := readFile(file)
	if index == nil || err != nil {
		return false, err
	}
	var e entry
	// The parser's errors may quote the content.
	if json.Unmarshal(index, &e) != nil || e.Version != storeVersion && e.Version != indexVersion {
		return false, damaged(file)
	}
	content := string(index)
	if e.Version == indexVersion {
		content, err = d.values.Get(ctx, d.key(file))
		if errors.Is(err, secret.ErrNotFound) {
			return false, nil // deleted, or the secrets store was
		}
		if err != nil {
			return false, fmt.Errorf("read a sign-in: %w", err)
		}
	}
	if json.Unmarshal([]byte(content), v) != nil {
		return false, damaged(file)
	}
	return true, nil
}

// readFile returns the content of a file; nil when it does not exist.
func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a sign-in: %w", err)
	}
	defer f.Close()
	b, err := netguard.ReadBounded(f, maxDocument)
	if err != nil {
		return nil, fmt.Errorf("read a sign-in: %s: %w", file, err)
	}
	return append([]byte{}, b...), nil // not nil
}

func damaged(file string) error {
	return fmt.Errorf("%s is damaged or of another version of thv; delete it and sign in again", file)
}

// write stores a record: its content first, then the file that states that it exists.
func (d records) write(ctx context.Context, file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := d.values.Set(ctx, d.key(file), string(b)); err != nil {
		return fmt.Errorf("keep a sign-in: %w", err)
	}
	index, err := json.Marshal(entry{Version: indexVersion})
	if err != nil {
		return err
	}
	return settings.WriteAtomic(file, index, 0o600)
}

// adopt moves the record of a file of an earlier version into the secrets store, unless
// that is locked: the file goes on to hold it then.
func (d records) adopt(ctx context.Context, file string) error {
	if content, err := d.unmoved(file); content == nil || err != nil {
		return err
	}
	err := locked(ctx, file, func() error {
		content, err := d.unmoved(file) // another process may have moved it
		if content == nil || err != nil {
			return err
		}
		return d.write(ctx, file, json.RawMessage(content))
	})
	if errors.Is(err, secret.ErrLocked) {
		return nil
	}
	return err
}

// unmoved returns the content of a file of an earlier version, and nil for any other.
func (d records) unmoved(file string) ([]byte, error) {
	content, err := readFile(file)
	var e entry
	if err != nil || content == nil || json.Unmarshal(content, &e) != nil || e.Version != storeVersion {
		return nil, err
	}
	return content, nil
}

func (d records) forget(ctx context.Context, file string) error {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil // the secrets store need not be opened
	}
	if err := d.values.Delete(ctx, d.key(file)); err != nil {
		return fmt.Errorf("forget a sign-in: %w", err)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a sign-in: %w", err)
	}
	return nil
}

// locked calls do while it holds the record's lock, which excludes other processes too.
// Lock files are never deleted: two files of one name would be two locks.
func locked(ctx context.Context, file string, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("lock a sign-in: %w", err)
	}
	lock := flock.New(file+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("lock a sign-in: %w", err)
	}
	defer lock.Unlock()
	return do()
}
