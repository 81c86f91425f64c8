package netguard

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// maxSecret bounds a secret's file, in bytes.
const maxSecret = 64 << 10

// ReadSecret reads a secret from its file. Call it for each use: such files are
// replaced while a server runs. Line breaks at the end do not belong to the secret;
// all else does. Errors name the path.
func ReadSecret(path string) (string, error) {
	// Opening a named pipe would wait until another process writes to it.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := ReadBounded(f, maxSecret)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if strings.TrimSpace(secret) == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
