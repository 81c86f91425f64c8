package runflag

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file that a person named: all of it, or an error when it is
// longer than max bytes. It need not be a regular file; what a shell makes of
// <(command) is read too.
func ReadFile(path string, max int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > max {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", path, max)
	}
	return content, nil
}
