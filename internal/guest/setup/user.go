package setup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// identity is a user of a container.
type identity struct {
	uid, gid int
	groups   []int // supplementary, and gid
	home     string
}

const (
	maxID       = 1<<31 - 1 // as in engines
	maxAccounts = 4 << 20   // bytes read of /etc/passwd and of /etc/group
	maxLine     = 64 << 10
	maxGroups   = 1 << 10
)

// lookup resolves an image's USER as engines do (OCI image-spec, config.md, User): "user", "uid", "user:group", "uid:gid", "uid:group" or
// "user:gid"; "" is user 0. A number needs no entry in /etc/passwd or /etc/group;
// without a group, the group is the entry's, or 0, and the user is also in every group
// that lists it.
func lookup(root fs.FS, spec string) (*identity, error) {
	name, group, _ := strings.Cut(spec, ":")
	if name == "" {
		name = "0"
	}
	who := &identity{home: "/"}
	account, err := find(root, "etc/passwd", name, 4)
	switch {
	case err != nil:
		return nil, err
	case account != nil:
		who.uid, who.gid = id(account[2]), id(account[3])
		if len(account) > 5 && account[5] != "" {
			who.home = account[5]
		}
	default:
		who.uid = id(name)
	}
	if who.uid < 0 || who.gid < 0 {
		return nil, fmt.Errorf("the image's /etc/passwd has no user %q with a number from 0 to %d", name, maxID)
	}
	if group == "" {
		if account != nil {
			who.groups, err = groupsOf(root, account[0])
		}
	} else {
		who.gid, err = groupID(root, group)
	}
	// The own group is among the supplementary ones: otherwise a file that denies
	// access to the group grants it to the member (CVE-2022-36109).
	who.groups = append([]int{who.gid}, who.groups...)
	return who, err
}

func groupID(root fs.FS, group string) (int, error) {
	entry, err := find(root, "etc/group", group, 3)
	if err != nil {
		return 0, err
	}
	gid := id(group)
	if entry != nil {
		gid = id(entry[2])
	}
	if gid < 0 {
		return 0, fmt.Errorf("the image's /etc/group has no group %q with a number from 0 to %d", group, maxID)
	}
	return gid, nil
}

// id parses the number of a user or group; -1 if it is none.
func id(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return int(n)
}

// find returns the fields of the first line of an account file with that name or
// number; nil if there is none, or no file.
func find(root fs.FS, file, wanted string, fields int) ([]string, error) {
	var found []string
	number := id(wanted)
	err := entries(root, file, fields, func(entry []string) bool {
		if entry[0] == wanted || number >= 0 && id(entry[2]) == number {
			found = entry
		}
		return found == nil
	})
	return found, err
}

func groupsOf(root fs.FS, user string) ([]int, error) {
	var groups []int
	err := entries(root, "etc/group", 4, func(entry []string) bool {
		if gid := id(entry[2]); gid >= 0 && slices.Contains(strings.Split(entry[3], ","), user) {
			groups = append(groups, gid)
		}
		return len(groups) < maxGroups
	})
	return groups, err
}

// entries calls yield with each line of an account file (passwd(5), group(5)) with at
// least that many fields, until yield returns false. A missing file has no lines.
func entries(root fs.FS, file string, fields int, yield func([]string) bool) error {
	// Only a regular file is opened: the open of a pipe would block.
	info, err := fs.Stat(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("/%s is not a file", file)
	}
	f, err := root.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxAccounts))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if entry := strings.Split(strings.TrimSpace(lines.Text()), ":"); len(entry) >= fields && !yield(entry) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read /%s: %w", file, err)
	}
	return nil
}
