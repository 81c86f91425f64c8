package setup

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// passwdAt makes a root directory with this /etc/passwd.
func passwdAt(t *testing.T, text string) (root, file string) {
	t.Helper()
	root = t.TempDir()
	file = filepath.Join(root, "etc", "passwd")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return root, file
}

// Node.js (os.userInfo), git and ssh call getpwuid(3).
func TestEnroll(t *testing.T) {
	const added = "app:x:4242:4243:app:/app:/bin/sh\n"
	for name, tt := range map[string]struct{ before, home, want string }{
		"the image has users":            {passwd, "/app", passwd + added},
		"the last line does not end":     {strings.TrimSuffix(passwd, "\n"), "/app", passwd + added},
		"the image has no user":          {"", "/app", added},
		"the number is there":            {"some:x:4242:1::/:/bin/sh\n", "/app", "some:x:4242:1::/:/bin/sh\n"},
		"a user is named as the number":  {"4242:x:7:7::/:/bin/sh\n", "/app", "4242:x:7:7::/:/bin/sh\n" + added},
		"a home that passwd cannot hold": {"", "/a:0:0", strings.Replace(added, ":/app:", ":/:", 1)},
		"a home of two lines":            {"", "/a\nroot::0", strings.Replace(added, ":/app:", ":/:", 1)},
	} {
		root, file := passwdAt(t, tt.before)
		for range 2 { // the second time it is there
			if err := enroll(root, tt.home, &identity{uid: 4242, gid: 4243}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		if who, err := lookup(os.DirFS(root), "4242:4243"); err != nil || who.uid != 4242 && !strings.HasPrefix(name, "a user is named") {
			t.Errorf("%s: looked up, it is %+v, %v", name, who, err)
		}
	}
}

// The file may be prepared by a hostile image, or be a file of the host.
func TestEnroll_OnlyRegularFilesOfContainer(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("kept\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(file string) error{
		"a link":          func(file string) error { return os.Symlink(outside, file) },
		"a pipe":          func(file string) error { return syscall.Mkfifo(file, 0o644) },
		"a directory":     func(file string) error { return os.Mkdir(file, 0o755) },
		"nothing":         func(string) error { return nil },
		"no folder":       func(file string) error { return os.Remove(filepath.Dir(file)) },
		"a great file":    func(file string) error { return os.WriteFile(file, make([]byte, maxAccounts+1), 0o644) },
		"a linked folder": linkedFolder(outside),
	} {
		root, file := passwdAt(t, "")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := put(file); err != nil {
			t.Fatal(err)
		}
		if err := enroll(root, "/app", &identity{uid: 4242, gid: 4243}); err == nil {
			t.Errorf("%s was added to", name)
		}
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() != maxAccounts+1 && name != "a linked folder" {
			t.Errorf("%s became a file of %d bytes", name, info.Size())
		} else if name == "nothing" && !os.IsNotExist(err) {
			t.Errorf("a file was made: %v", err)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "kept\n" {
		t.Errorf("through a link: %v, %q", err, got)
	}
}

func linkedFolder(outside string) func(string) error {
	return func(file string) error {
		dir := filepath.Dir(file)
		if err := os.Remove(dir); err != nil {
			return err
		}
		elsewhere := filepath.Join(filepath.Dir(outside), "etc")
		if err := os.MkdirAll(elsewhere, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(elsewhere, "passwd"), []byte(passwd), fs.FileMode(0o644)); err != nil {
			return err
		}
		return os.Symlink(elsewhere, dir)
	}
}
