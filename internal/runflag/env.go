package runflag

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// ParseEnv reads values of -e, each KEY=VALUE; the last of one name wins. KEY
// alone takes the value from the caller's own environment, as docker does. All
// faults are reported.
func ParseEnv(values []string, lookup func(string) (string, bool)) (map[string]string, error) {
	env := map[string]string{}
	var errs []error
	for _, v := range values {
		name, value, given := strings.Cut(v, "=")
		if err := workload.ValidEnvName(name); err != nil {
			errs = append(errs, fmt.Errorf("-e: %w; write -e KEY=VALUE", err))
			continue
		}
		if !given {
			var ok bool
			if value, ok = lookup(name); !ok {
				errs = append(errs, fmt.Errorf("-e %s: it is not set here; write -e %s=VALUE", name, name))
				continue
			}
		}
		if err := workload.ValidEnvValue(value); err != nil {
			errs = append(errs, fmt.Errorf("-e %s: %w", name, err))
			continue
		}
		env[name] = value
	}
	return env, errors.Join(errs...)
}

// maxEnvFile bounds an env file, in bytes.
const maxEnvFile = 1 << 20

// ParseEnvFile reads an env file: a line is KEY=VALUE, blank, or a comment that
// begins with #. "export " before a key is dropped. One pair of single or double
// quotes around a value is removed; nothing else is interpreted, as in docker's
// env files. Faults name the line.
func ParseEnvFile(content []byte) (map[string]string, error) {
	if len(content) > maxEnvFile {
		return nil, fmt.Errorf("larger than %d bytes", maxEnvFile)
	}
	if !utf8.Valid(content) {
		return nil, errors.New("not UTF-8 text")
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	env := map[string]string{}
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxEnvFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("line %d: it is not KEY=VALUE", n))
			continue
		}
		if err := workload.ValidEnvName(name); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		if err := workload.ValidEnvValue(value); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		env[name] = value
	}
	return env, errors.Join(errs...)
}

// LoadEnvFile reads one env file. The error names the file.
func LoadEnvFile(file string) (map[string]string, error) {
	content, err := ReadFile(file, maxEnvFile)
	if err != nil {
		return nil, fmt.Errorf("env file: %w", err)
	}
	env, err := ParseEnvFile(content)
	if err != nil {
		return nil, fmt.Errorf("env file %s: %w", file, err)
	}
	return env, nil
}

// LoadEnvDir reads every regular file of a directory that is not hidden, in the
// order of their names; a later file wins. Links are followed.
func LoadEnvDir(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("env file directory: %w", err)
	}
	env := map[string]string{}
	var errs []error
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		info, err := os.Stat(file)
		if strings.HasPrefix(e.Name(), ".") || err == nil && !info.Mode().IsRegular() {
			continue
		}
		one, err := LoadEnvFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		maps.Copy(env, one)
	}
	return env, errors.Join(errs...)
}
