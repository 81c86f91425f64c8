package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Bounds on the unpacked size of a pack: a few bytes may expand to gigabytes.
const (
	maxObject    = 100 << 20 // bytes of one
	maxUnpacked  = 1 << 30   // bytes of all
	maxObjects   = 1_000_000
	maxTagLevels = 5
	objectCache  = 8 << 20
)

// objects finds an object of a repository by its hash.
type objects func(plumbing.Hash) (plumbing.EncodedObject, error)

// openPack checks the bounds of a pack and makes its objects accessible.
func openPack(ctx context.Context, file *os.File) (objects, error) {
	if err := checkPack(ctx, file); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	index := &idxfile.Writer{}
	parser, err := packfile.NewParser(packfile.NewScanner(file), index)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, fmt.Errorf("what it sends is damaged: %w", err)
	}
	made, err := index.Index()
	if err != nil {
		return nil, err
	}
	return packfile.NewPackfileWithCache(made, nil, lockless{file}, cache.NewObjectLRU(objectCache), 0).Get, nil
}

// lockless is a file for the library. It needs no lock: only this process uses it.
type lockless struct{ *os.File }

func (lockless) Lock() error   { return nil }
func (lockless) Unlock() error { return nil }

// checkPack reads a pack once and adds up the sizes that its objects declare. The
// library allocates what they declare.
func checkPack(ctx context.Context, file *os.File) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	scanner := packfile.NewScanner(file)
	_, count, err := scanner.Header()
	if err != nil {
		return fmt.Errorf("what it sends is damaged: %w", err)
	}
	if count > maxObjects {
		return fmt.Errorf("it sends %d objects; the most is %d", count, maxObjects)
	}
	total := int64(0)
	for range count {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h, err := scanner.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("what it sends is damaged: %w", err)
		}
		size := h.Length
		if size >= 0 && size <= maxObject {
			var start firstBytes
			if _, _, err := scanner.NextObject(&start); err != nil {
				return fmt.Errorf("what it sends is damaged: %w", err)
			}
			if h.Type.IsDelta() {
				size += start.target()
			}
		}
		if total += size; size < 0 || size > maxObject || total > maxUnpacked {
			return errors.New("what it sends unfolds to more than can be taken; keep the registry in a repository of its own")
		}
	}
	return nil
}

// firstBytes keeps the first bytes that are written to it.
type firstBytes struct {
	kept []byte
}

func (f *firstBytes) Write(p []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - len(f.kept); room > 0 {
		f.kept = append(f.kept, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// target is the size of the result of a delta. It follows the size of the base
// (gitformat-pack(5), "Deltified representation"). A malformed size is too large.
func (f *firstBytes) target() int64 {
	_, n := binary.Uvarint(f.kept)
	if n <= 0 {
		return maxObject + 1
	}
	size, n := binary.Uvarint(f.kept[n:])
	if n <= 0 || size > maxObject {
		return maxObject + 1
	}
	return int64(size)
}

// file reads a file in the tree of a commit, or of the commit of a tag.
func (get objects) file(commit plumbing.Hash, path string) ([]byte, error) {
	tree, err := get.tree(commit)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		entry, err := get.entry(tree, part)
		if err != nil {
			return nil, err
		}
		last := i == len(parts)-1
		switch {
		case last && (entry.Mode == filemode.Regular || entry.Mode == filemode.Executable || entry.Mode == filemode.Deprecated):
			return get.blob(entry.Hash)
		case !last && entry.Mode == filemode.Dir:
			tree = entry.Hash
		case entry.Mode == filemode.Symlink:
			return nil, fmt.Errorf("%s is a link; name the file itself", part)
		case entry.Mode == filemode.Submodule:
			return nil, fmt.Errorf("%s is another repository (a submodule)", part)
		case last:
			return nil, fmt.Errorf("%s is a directory", part)
		default:
			return nil, fmt.Errorf("%s is not a directory", part)
		}
	}
	return nil, errors.New("there is no path")
}

// tree finds the tree of a commit, or of the commit of a tag.
func (get objects) tree(hash plumbing.Hash) (plumbing.Hash, error) {
	for range maxTagLevels {
		o, err := get(hash)
		if err != nil {
			return hash, gone(err)
		}
		switch o.Type() {
		case plumbing.CommitObject:
			var c object.Commit
			err := c.Decode(o)
			return c.TreeHash, err
		case plumbing.TagObject:
			var tag object.Tag
			if err := tag.Decode(o); err != nil {
				return hash, err
			}
			hash = tag.Target
		default:
			return hash, fmt.Errorf("it is a %s, not a commit", o.Type())
		}
	}
	return hash, errors.New("it is a tag of a tag, too often")
}

func (get objects) entry(tree plumbing.Hash, name string) (*object.TreeEntry, error) {
	o, err := get(tree)
	if err != nil {
		return nil, gone(err)
	}
	var t object.Tree
	if err := t.Decode(o); err != nil {
		return nil, err
	}
	for i := range t.Entries {
		if t.Entries[i].Name == name {
			return &t.Entries[i], nil
		}
	}
	return nil, fmt.Errorf("there is no %s", name)
}

func (get objects) blob(hash plumbing.Hash) ([]byte, error) {
	o, err := get(hash)
	if err != nil {
		return nil, gone(err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return netguard.ReadBounded(r, maxFile)
}

func gone(err error) error {
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return errors.New("the repository does not have it")
	}
	return err
}
