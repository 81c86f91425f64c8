package setup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/internal/guest"
)

func TestCheckMounts(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	checked := guest.Mounted{Path: dir, Device: st.Dev, Inode: st.Ino}
	if err := CheckMounts([]guest.Mounted{checked}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*guest.Mounted){
		"another directory": func(m *guest.Mounted) { m.Path = other },
		"another device":    func(m *guest.Mounted) { m.Device++ },
		"nothing":           func(m *guest.Mounted) { m.Path = filepath.Join(dir, "nothing") },
	} {
		m := checked
		change(&m)
		if err := CheckMounts([]guest.Mounted{checked, m}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
