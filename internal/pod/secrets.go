package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// secretFiles reads secrets from a directory: secret/NAME/KEY is the file NAME/KEY. The
// kubelet replaces the files of a mounted Secret at once, by a symbolic link, so a value is
// read at each use and is never half of an old one.
type secretFiles struct{ dir string }

// value returns the value of a reference. Line breaks at its end do not belong to it.
func (s *secretFiles) value(ref string) (string, error) {
	name, ok := secret.SharedName(ref)
	if !ok {
		return "", fmt.Errorf("the secret %q is one of a machine's store; in a cluster secrets are secret/NAME/KEY", ref)
	}
	if err := secret.CheckPlainName(name); err != nil {
		return "", err
	}
	if s.dir == "" {
		return "", fmt.Errorf("the secret %s is needed, and --secrets-dir is not given", name)
	}
	value, err := netguard.ReadSecret(filepath.Join(s.dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the secret %s is not there: the Secret, or its key, does not exist", name)
	}
	return value, err
}
