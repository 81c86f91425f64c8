package owner

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
)

// user is the user that a server runs as, uid:gid; "" is the image's user.
//
// The user of an image is a number that owns nothing outside of it. A server that is
// given a folder could write nothing there, and not read what only its owner reads.
// So a server whose image is labelled as running under any user, as the images of
// packages are, runs as the person who starts it. For root, who may give a folder of any
// user, it runs as the owner of the first folder.
//
// A privileged container keeps its image's user: its root is root outside.
func (s *instance) user(ctx context.Context, image container.Image) (string, error) {
	c := s.spec.Container
	if len(c.Mounts) == 0 || image.Labels[container.LabelUser] != container.AnyUser || c.Permissions.Privileged || runtime.GOOS != "linux" {
		return "", nil // elsewhere engines run in a machine of their own, and see to owners
	}
	info, err := s.engine.Info(ctx)
	if err != nil {
		return "", err
	}
	if info.Rootless {
		return "0:0", nil // in there, that is the person
	}
	if uid := os.Getuid(); uid != 0 {
		return fmt.Sprintf("%d:%d", uid, os.Getgid()), nil
	}
	return ownerOf(c.Mounts[0].Host)
}

// runAs is cfg with the server run by user, if there is one. It may have no entry in
// the image's /etc/passwd: the guest makes one where it can (package guest/setup), and
// some programs look for their user's name in the environment first.
func runAs(cfg container.Config, user string) container.Config {
	if cfg.User = user; user == "" {
		return cfg
	}
	for _, name := range []string{"LOGNAME", "USER"} {
		if !slices.ContainsFunc(cfg.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			cfg.Env = append(cfg.Env, name+"=app")
		}
	}
	return cfg
}
