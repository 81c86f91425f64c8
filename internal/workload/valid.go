package workload

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// envName: what every shell and program accepts (POSIX.1-2017, Base
// Definitions 8.1, and lower case, which programs use too).
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ValidEnvName is an error when a name of an environment variable is not portable.
func ValidEnvName(name string) error {
	if !envName.MatchString(name) {
		return fmt.Errorf("environment variable %q: a name has letters, digits and underscores and does not begin with a digit", name)
	}
	return nil
}

// maxEnvValue is in bytes. The kernel's own limit of one variable is 128 KiB (execve(2),
// MAX_ARG_STRLEN).
const maxEnvValue = 128<<10 - 256

// ValidEnvValue is an error when the value of an environment variable cannot be passed on.
func ValidEnvValue(v string) error {
	if strings.ContainsRune(v, 0) {
		return errors.New("a value cannot hold a NUL byte")
	}
	if len(v) > maxEnvValue {
		return fmt.Errorf("a value cannot be longer than %d bytes", maxEnvValue)
	}
	return nil
}

// labelKey: what engines and Kubernetes both accept.
var labelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)

// reservedLabels begin the labels that Toolhaven itself puts on containers.
const reservedLabels = "dev.toolhaven."

// ValidLabelKey is an error when engines would refuse the key of a label, or it is ours.
func ValidLabelKey(key string) error {
	if !labelKey.MatchString(key) {
		return fmt.Errorf("label %q: a key has letters, digits, dots, dashes, underscores and slashes", key)
	}
	if strings.HasPrefix(key, reservedLabels) {
		return fmt.Errorf("label %q: keys that begin with %s are ours", key, reservedLabels)
	}
	return nil
}

// ValidLabelValue is an error when the value of a label has more than one line.
func ValidLabelValue(value string) error {
	if strings.ContainsAny(value, "\x00\r\n") {
		return errors.New("a value is one line")
	}
	return nil
}

// ValidMountTarget is an error when a path in the container cannot be mounted over.
func ValidMountTarget(target string) error {
	switch {
	case !path.IsAbs(target):
		return fmt.Errorf("the container path %q is not absolute", target)
	case path.Clean(target) != target:
		return fmt.Errorf("the container path %q is not in its shortest form, %s", target, path.Clean(target))
	case target == "/":
		return errors.New("the container's root cannot be mounted over")
	case target == "/.thv" || strings.HasPrefix(target, "/.thv/"):
		return errors.New("/.thv in the container is ours")
	}
	return nil
}
