package setup

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/toolhaven/toolhaven/internal/guest"
)

// CheckMounts checks that the engine has mounted what the owner has checked. The engine
// resolves the paths of the host once more, and another server may have replaced a part of
// them in between. It cannot replace what is mounted already.
func CheckMounts(mounts []guest.Mounted) error {
	for _, m := range mounts {
		var st unix.Stat_t
		if err := unix.Stat(m.Path, &st); err != nil {
			return fmt.Errorf("check the mount at %s: %w", m.Path, err)
		}
		if st.Dev != m.Device || st.Ino != m.Inode {
			return fmt.Errorf("what is mounted at %s is not what was checked: its path on the host was replaced meanwhile, which another server can do that may write there", m.Path)
		}
	}
	return nil
}
